// Pods that wait, grouped by what they wait for; and the search for any pod.
import { useAsk, useStore } from './data.js'
import { link, setQuery, useRoute } from './route.js'
import { GroupList, Notice, Table, Waiting } from './parts.jsx'
import { age, plural } from './words.js'

export function Pending() {
  const { data, error } = useAsk('api/pending')
  if (error) return <main><h1>Pods that wait</h1><Notice title="">{error}</Notice></main>
  if (!data) return <Waiting what="Looking for pods that wait…" />
  return (
    <main>
      <h1>Pods that wait <small class="muted">{data.total ? `${plural(data.total, 'pod')}, ${plural(data.groups.length, 'reason')}` : ''}</small></h1>
      {!data.total && <Notice kind="good" title="No pod waits. ">Every pod has a node.</Notice>}
      <div class="cards">
        {data.groups.map((g) => (
          <section class="card" key={g.reason + g.message}>
            <h2>{plural(g.count, 'pod')} <small>{g.reason}</small></h2>
            <Why g={g} />
            {g.gang && <p>Gang <a href={link('gangs', g.gang.namespace, g.gang.source, g.gang.name)}><bdi>{g.gang.namespace}/{g.gang.name}</bdi></a></p>}
            <PodTable pods={g.pods} label={'Pods: ' + g.message} />
            {g.count > g.pods.length && <p class="muted">and {g.count - g.pods.length} more, younger ones</p>}
          </section>
        ))}
      </div>
    </main>
  )
}

// Why is what the nodes say, and folded what the scheduler wrote; its words alone where no node was
// asked.
function Why({ g }) {
  if (!g.said) return <p class="why">{g.message}</p>
  const [pod] = g.pods
  return (
    <>
      {g.count > 1 && <p class="muted">What the nodes say to <bdi>{pod.namespace}/{pod.name}</bdi>, the oldest:</p>}
      <GroupList groups={g.said} />
      <details><summary>What the scheduler wrote</summary><p>{g.message}</p></details>
    </>
  )
}

export function Pods() {
  const { query } = useRoute()
  const q = query.get('q') || ''
  const { data, error } = useAsk('api/pods?q=' + encodeURIComponent(q))
  return (
    <main>
      <h1>Pods</h1>
      <div class="tools" role="search">
        <label class="choice grow">
          <span>Search</span>
          <input id="filter" type="search" placeholder="namespace, name, node…  ( / )" value={q} onInput={(e) => setQuery({ q: e.currentTarget.value })} />
        </label>
        <p class="count" role="status">{data && (data.total > data.pods.length ? `the first ${data.pods.length} of ${plural(data.total, 'pod')}` : plural(data.total, 'pod'))}</p>
      </div>
      {error && <Notice title="">{error}</Notice>}
      {data && <PodTable pods={data.pods || []} />}
    </main>
  )
}

const podColumns = [['Pod'], ['Node'], ['Phase'], ['Age', 'num']]

function PodTable({ pods, label = 'Pods' }) {
  const { cluster } = useStore()
  if (!pods.length) return <p class="waiting">No pod is like that.</p>
  return (
    <Table label={label} columns={podColumns} rows={pods.map((p) => [
      <a href={link('pods', p.namespace, p.name)}><bdi>{p.namespace}/{p.name}</bdi></a>,
      p.node ? <a href={link('nodes', p.node)}>{p.node}</a> : '–',
      p.phase,
      cluster ? age(cluster.now - p.created) : '',
    ])} />
  )
}
