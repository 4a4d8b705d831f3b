// The list of all pods and their resources, with search, filters, orders and pages.
import { useAsk, useStore } from './data.js'
import { setQuery, useRoute } from './route.js'
import { Choice, NodeLink, Notice, PodLink, Table } from './parts.jsx'
import { age, cpuList, plural } from './words.js'

const orders = [['', 'Name'], ['node', 'Node'], ['cpus', 'Most CPUs'], ['young', 'Youngest'], ['old', 'Oldest']]
const phases = ['Running', 'Pending', 'Succeeded', 'Failed'].map((p) => [p, p])
const kinds = [['', 'all'], ['exact', 'exact'], ['verdict', 'verdict'], ['differs', 'not as promised'], ['split', 'on several NUMA nodes']]
const columns = [['Pod'], ['Node', 'at'], ['State'], ['NUMA'], ['CPUs', 'mono'], ['Certainty'], ['Promise'], ['Aligned'], ['Age', 'num']]
const aligned = { 'numa-node': 'yes', package: 'no, one package', machine: 'no, across packages' }

export function Pods() {
  const { query } = useRoute()
  const { rows, cluster } = useStore()
  const asked = new URLSearchParams()
  for (const key of ['q', 'namespace', 'phase', 'kind', 'sort', 'from']) if (query.get(key)) asked.set(key, query.get(key))
  const { data, error } = useAsk('api/pods?' + asked)
  const pick = (key) => (value) => setQuery({ [key]: value, from: '' })
  const namespaces = [...new Set([...rows.values()].flatMap((r) => r.namespaces || []))].sort()
  return (
    <main>
      <h1>Pods</h1>
      <div class="tools" role="search">
        <label class="choice grow">
          <span>Search</span>
          <input id="filter" type="search" placeholder="namespace, name, node…  ( / )" value={query.get('q') || ''} onInput={(e) => pick('q')(e.currentTarget.value)} />
        </label>
        <Choice label="Order" value={query.get('sort') || ''} options={orders} onChange={pick('sort')} />
        <Choice label="Namespace" value={query.get('namespace') || ''} options={[['', 'all'], ...namespaces.map((n) => [n, n])]} onChange={pick('namespace')} />
        <Choice label="Phase" value={query.get('phase') || ''} options={[['', 'all'], ...phases]} onChange={pick('phase')} />
        <Choice label="Pinned" value={query.get('kind') || ''} options={kinds} onChange={pick('kind')} />
        <p class="count" role="status">{data && plural(data.total, 'pod')}</p>
      </div>
      {error && <Notice title="">{error}</Notice>}
      {data && !data.pods.length && <p class="waiting">No pod matches.</p>}
      {data?.pods.length > 0 && <Table label="Pods" columns={columns} rows={data.pods.map((p) => [
        <PodLink p={p} />, <NodeLink name={p.node} />, p.has ? p.has.state + (p.has.resize ? ', resize ' + p.has.resize.state : '') : p.phase.toLowerCase(), ...has(p),
        cluster ? age(cluster.now - p.created) : '',
      ])} />}
      {data && <Pages data={data} />}
    </main>
  )
}

// has returns the cells of a pod: NUMA nodes, CPUs, certainty, outcome of the promise, and
// alignment.
function has(p) {
  const h = p.has || {}
  const cpus = cpuList(h.cpus) || (h.unknownCPUs && `${h.unknownCPUs} pinned, CPUs unknown`) || (p.milliCPUs ? `${p.milliCPUs / 1000} ${p.node ? 'shared' : 'asked'}` : '–')
  const gets = h.resize?.cpus && h.resize.cpus !== h.cpus ? ' → ' + cpuList(h.resize.cpus) : ''
  return [h.numaNodes || '–', cpus + gets, h.certainty || '–', h.outcome || '–', aligned[h.alignment] || '–']
}

function Pages({ data }) {
  const { from, size, total } = data
  if (total <= size && !from) return null
  const go = (to) => () => {
    setQuery({ from: to ? String(to) : '' })
    scrollTo(0, 0)
  }
  return (
    <nav class="pages" aria-label="Pages">
      <button type="button" disabled={!from} onClick={go(Math.max(0, from - size))}>Previous</button>
      <span>{data.pods.length ? `${from + 1} to ${from + data.pods.length}` : 'none'} of {plural(total, 'pod')}</span>
      <button type="button" disabled={from + size >= total} onClick={go(from + size)}>Next</button>
    </nav>
  )
}
