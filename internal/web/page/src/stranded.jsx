// Free resources that are hard to use, by resource. Devices come first, because they cost the most.
import { useAsk, useStore } from './data.js'
import { NodeLink, Notice, PodLink, Table, Waiting } from './parts.jsx'
import { link } from './route.js'
import { amount, amountOf, plural, resourceName, resourcesOf } from './words.js'

export function Stranded() {
  const { data, error } = useAsk('api/stranded')
  const { rows } = useStore()
  if (error) return <main><h1>Stranded</h1><Notice title="">{error}</Notice></main>
  if (!data) return <Waiting what="Looking for what is stranded…" />
  const all = [...rows.values()]
  const order = resourcesOf(all)
  const rank = (r) => (r.includes('/') ? -1 : 0) * order.length + order.indexOf(r)
  const sums = [...data.resources].sort((a, b) => rank(a.resource) - rank(b.resource))
  return (
    <main class="stranded">
      <h1>Stranded <small class="muted">what is free and of little use: on nodes in trouble or cordoned, next to too few free CPUs or too little free memory, or too few devices for any pod</small></h1>
      {!sums.length && <Notice kind="good" title="Nothing. ">Everything that is free has CPUs and memory next to it.</Notice>}
      <div class="cards">{sums.map((s) => <Sum key={s.resource} s={s} {...sumOf(all, s.resource)} />)}</div>
    </main>
  )
}

function sumOf(rows, resource) {
  const out = { free: 0, total: 0 }
  for (const numa of rows.flatMap((row) => row.numaNodes || [])) {
    const a = amountOf(numa, resource)
    out.free += a?.free || 0
    out.total += a?.total || 0
  }
  return out
}

function Sum({ s, free, total }) {
  const { resource: r } = s
  const reasons = [...s.reasons].sort((a, b) => b.stranded - a.stranded)
  return (
    <section class="card">
      <h2>{resourceName(r)}: {amount(r, s.stranded)} of {amount(r, free)} free stranded <small>{amount(r, total)} in all</small></h2>
      <meter class="share" min={0} max={Math.max(free, 1)} value={s.stranded} aria-label={`${resourceName(r)}: stranded of what is free`} />
      <p>{reasons.map((one) => `${one.reason}: ${amount(r, one.stranded)}`).join(' · ')}</p>
      <Table label={resourceName(r) + ' stranded, NUMA node by NUMA node'} columns={[['Node'], ['NUMA', 'num'], ['Stranded', 'num'], ['Reason'], ['Why'], ['Rule']]} rows={s.most.map((m) => [
        <NodeLink name={m.node} />, m.numa, amount(r, m.stranded), m.reason, m.message, m.rule || '–',
      ])} />
      {s.waiting
        ? <p class="makeroom"><PodLink p={s.waiting} /> waits for it: <a class="ask" href={`${link('fit')}?pod=${encodeURIComponent(`${s.waiting.namespace}/${s.waiting.name}`)}&room=1`}>plan which pods would have to move</a></p>
        : <p class="makeroom"><a class="ask" href={link('fit')}>Plan which pods would have to move for a pod (defrag)</a></p>}
      {s.count > s.most.length && <p class="muted">and {plural(s.count - s.most.length, 'more NUMA node')}</p>}
    </section>
  )
}
