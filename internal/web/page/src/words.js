// Texts for amounts, names and states.
const units = ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi']

export function bytes(n) {
  let i = 0
  while (n >= 1024 && i < units.length - 1) {
    n /= 1024
    i++
  }
  return (n >= 100 ? Math.floor(n) : Math.floor(n * 10) / 10) + units[i] // rounded down, so that a free amount is never overstated
}

export const isBytes = (resource) => resource === 'memory' || resource.startsWith('hugepages-')
export const amount = (resource, n) => (isBytes(resource) ? bytes(n) : n.toLocaleString('en'))
export const resourceName = (r) => ({ cpu: 'CPUs', memory: 'Memory' })[r] || r.replace('hugepages-', 'huge pages ')
export const collator = new Intl.Collator('en', { numeric: true })
export const plural = (n, one) => `${n.toLocaleString('en')} ${one}${n === 1 ? '' : 's'}`

export function age(seconds) {
  if (seconds < 120) return Math.max(0, Math.round(seconds)) + 's'
  if (seconds < 7200) return Math.round(seconds / 60) + 'm'
  if (seconds < 172800) return Math.round(seconds / 3600) + 'h'
  return Math.round(seconds / 86400) + 'd'
}

// cpuList returns a list of CPUs as the command line prints it. A long list has strides: 3-39:1/2.
export function cpuList(text) {
  if (!text || text.length <= 24) return text
  return text.split(';').map((part) => {
    const ids = part.split(',').flatMap((r) => {
      const [a, b = a] = r.split('-').map(Number)
      return Array.from({ length: b - a + 1 }, (_, i) => a + i)
    })
    if (!ids.every(Number.isInteger)) return part
    const out = []
    for (let i = 0; i < ids.length;) {
      const step = ids[i + 1] - ids[i]
      let j = i + 1
      while (j < ids.length && ids[j] - ids[j - 1] === step) j++
      if (step === 1 || j - i >= 3) {
        out.push(step === 1 ? `${ids[i]}-${ids[j - 1]}` : `${ids[i]}-${ids[j - 1]}:1/${step}`)
        i = j
      } else {
        out.push(ids[i])
        i++
      }
    }
    return out.join(', ')
  }).join('; ')
}

// amountOf returns a NUMA node's amount of a resource.
export function amountOf(numa, resource) {
  if (resource === 'cpu') return numa.cpus
  return (numa.memory || []).find((a) => a.resource === resource) || (numa.devices || []).find((a) => a.resource === resource)
}

// resourcesOf returns all resources of the rows: CPUs, memory, huge pages, then devices.
export function resourcesOf(rows) {
  const seen = new Set()
  for (const row of rows) {
    for (const numa of row.numaNodes || []) {
      if (numa.cpus) seen.add('cpu')
      for (const a of numa.memory || []) seen.add(a.resource)
      for (const a of numa.devices || []) seen.add(a.resource)
    }
  }
  const rank = (r) => (r === 'cpu' ? 0 : r === 'memory' ? 1 : isBytes(r) ? 2 : 3)
  return [...seen].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b))
}

// status returns the state of a node as a short text, and its level: good, doubt or bad.
export function status(row) {
  const cordoned = (row.conditions || []).includes('Unschedulable')
  const also = cordoned ? ', cordoned' : ''
  if (row.trouble) return { word: row.trouble.reason + also, level: 'bad' }
  if (row.warnings?.length) return { word: row.warnings[0].reason + also, level: 'doubt' }
  if (cordoned) return { word: 'Cordoned', level: 'doubt' }
  return { word: 'Ready', level: 'good' }
}
