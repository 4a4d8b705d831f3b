// The pages of gangs: the state of each gang, and why it waits.
import { useAsk } from './data.js'
import { link } from './route.js'
import { Groups, Notice, Refusals, Table, Waiting } from './parts.jsx'
import { age, plural } from './words.js'

const source = (s) => (s === 'gang' ? 'annotations' : s.toLowerCase())
const bound = (g) => `${g.bound + (g.succeeded || 0)} of ${g.minimum || '?'}`

export function Gangs() {
  const { data, error } = useAsk('api/gangs')
  if (error) return <main><h1>Gangs</h1><Notice title="">{error}</Notice></main>
  if (!data) return <Waiting what="Looking for gangs…" />
  return (
    <main>
      <h1>Gangs <small class="muted">{data.gangs.length ? plural(data.gangs.length, 'gang') : ''}</small></h1>
      {(data.notes || []).map((n) => <Notice key={n} kind="doubt" title="">{n}</Notice>)}
      {!data.gangs.length && <Notice kind="note" title="None. ">No pods ask to start together.</Notice>}
      {data.gangs.length > 0 && (
        <Table label="Gangs" columns={[['Gang'], ['Declared by'], ['State'], ['With nodes', 'num'], ['Waiting', 'num'], ['Why']]} rows={data.gangs.map((g) => [
          <a href={link('gangs', g.namespace, g.source, g.name)}><bdi>{g.namespace}/{g.name}</bdi></a>, source(g.source), g.state, bound(g), g.waitingSeconds ? age(g.waitingSeconds) : '–', g.why || '–',
        ])} />
      )}
    </main>
  )
}

export function GangView({ namespace, from, name }) {
  const { data: e, error } = useAsk(`api/gangs/${[namespace, from, name].map(encodeURIComponent).join('/')}`)
  if (error) return <main><h1><bdi>{namespace}/{name}</bdi></h1><Notice title="Nothing to show. ">{error}</Notice></main>
  if (!e) return <Waiting what={`Planning ${namespace}/${name}…`} />
  return (
    <main>
      <header class="title">
        <h1><bdi>{namespace}/{name}</bdi></h1>
        <p class="where">
          {e.state} · {bound(e)} with nodes · declared by {source(e.source)}
          {e.phase && <> · phase {e.phase}</>}
          {e.scheduler && <> · scheduler {e.scheduler}</>}
        </p>
      </header>
      {e.why && <Notice kind="doubt" title="Why: ">{e.why}</Notice>}
      {e.verdict && <Notice kind={e.whole ? 'good' : 'doubt'} title="Asked now: ">{e.verdict}</Notice>}
      {e.pods?.length > 0 && (
        <section>
          <h2>Its pods</h2>
          <Table label="Its pods" columns={[['Pod'], ['Task'], ['State'], ['Node'], ['NUMA'], ['Certainty']]} rows={e.pods.map((p) => [
            <a href={link('pods', namespace, p.name)}><bdi>{p.name}</bdi></a>, p.task || '–', p.state, p.node ? <a href={link('nodes', p.node)}>{p.node}</a> : '–', p.numaNodes || '–', p.certainty || '–',
          ])} />
        </section>
      )}
      {e.lacking && <Groups title={`What nodes say to ${e.lacking.pod}, with the others in their places`} groups={e.lacking.groups} />}
      {e.lacking && <Refusals answers={e.lacking.nodes} />}
    </main>
  )
}
