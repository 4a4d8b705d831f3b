// What if: where pods that do not exist would go now, and how many copies would fit.
import { useEffect, useRef, useState } from 'preact/hooks'
import { ask, useStore } from './data.js'
import { Drawing } from './node.jsx'
import { link, setQuery, useRoute } from './route.js'
import { Choice, Claims, Groups, Notice, Refusals, Table, containerName, shares } from './parts.jsx'
import { plural } from './words.js'

const example = `apiVersion: apps/v1
kind: Deployment
metadata: {name: train}
spec:
  replicas: 2
  selector: {matchLabels: {app: train}}
  template:
    metadata: {labels: {app: train}}
    spec:
      containers:
      - name: main
        image: train
        resources: {limits: {cpu: "8", memory: 16Gi}}
`

// The key under which this tab stores the last question.
const kept = 'berth-fit'

const settings = [
  ['policy', 'Policy', 'topologyManagerPolicy', ['none', 'best-effort', 'restricted', 'single-numa-node']],
  ['scope', 'Scope', 'topologyManagerScope', ['container', 'pod']],
  ['nps', 'NUMA nodes in a package', 'numaNodesPerPackage', ['1', '2', '4']],
  ['reserved', 'CPUs reserved for the system', 'reservedSystemCPUs'],
]

// The empty state of each kind of answer: where pods would go, a plan that moves pods, before and
// after, an error.
const nothing = { data: null, room: null, compared: null, error: '' }

export function Fit() {
  const { query } = useRoute()
  const { rows } = useStore()
  const [state, set] = useState({ ...nothing, asking: false })
  const text = useRef(null)
  const post = async (path, key) => {
    const yaml = text.current.value
    sessionStorage.setItem(kept, yaml)
    set((s) => ({ ...s, asking: true }))
    try {
      const answer = await ask(path, { method: 'POST', body: yaml, headers: { 'Content-Type': 'application/yaml' } })
      set((s) => ({ ...nothing, data: key === 'room' ? s.data : null, asking: false, [key]: answer }))
    } catch (e) {
      set({ ...nothing, error: e.message, asking: false })
    }
  }
  const submit = (e) => {
    e.preventDefault()
    const [path, key] = e.submitter?.value === 'compare' ? ['api/compare', 'compared'] : ['api/fit', 'data']
    const q = new URLSearchParams()
    for (const [key, , name] of settings) if (query.get(key)) q.append('set', `${name}=${query.get(key)}`)
    if (query.get('on')) q.append('on', query.get('on'))
    if (query.get('empty')) q.append('empty', '1')
    post(`${path}?${q}`, key)
  }
  const pod = query.get('pod')
  const plan = query.get('room')
  useEffect(() => { // with pod=NAMESPACE/NAME, the question or the plan is about a copy of this pod
    if (!pod) return
    ask(`api/pods/${pod.split('/').map(encodeURIComponent).join('/')}/yaml`).then((answer) => {
      text.current.value = answer.yaml
      if (plan) post('api/room', 'room')
      else text.current.form.requestSubmit()
    }, (e) => set({ ...nothing, error: e.message, asking: false }))
  }, [pod, plan])
  const pick = (key) => (value) => setQuery({ [key]: value })
  const { data, room, compared, error, asking } = state
  const asThey = !settings.some(([key]) => query.get(key)) && !query.get('empty')
  const short = data?.pods.some((p) => p.pinnable && p.placed + (p.untried || 0) < p.replicas)
  return (
    <main class="fit">
      <h1>What if <small class="muted">where would these pods go now, and how many of them fit? Nothing is written.</small></h1>
      <form class="fit-form" onSubmit={submit}>
        <label class="choice yaml">
          <span>Pods, Deployments, Jobs and other workloads, as YAML</span>
          <textarea ref={text} id="filter" rows="14" spellcheck={false} autocomplete="off" defaultValue={sessionStorage.getItem(kept) || example} />
        </label>
        <fieldset>
          <legend>As if nodes had these settings</legend>
          {settings.map(([key, label, , values]) => values ? (
            <Choice key={key} label={label} value={query.get(key) || ''} options={[['', 'as they are'], ...values.map((v) => [v, v])]} onChange={pick(key)} />
          ) : (
            <label class="choice" key={key}>
              <span>{label}</span>
              <input value={query.get(key) || ''} placeholder="as they are; 0-3,64-67" autocomplete="off" onInput={(e) => pick(key)(e.currentTarget.value.trim())} />
            </label>
          ))}
          <Choice label="Nodes" value={query.get('on') || ''} options={[['', 'all'], ...[...rows.keys()].sort().slice(0, 500).map((n) => [n, n])]} onChange={pick('on')} />
          <label class="check"><input type="checkbox" checked={!!query.get('empty')} onChange={(e) => pick('empty')(e.currentTarget.checked ? '1' : '')} /> as if no pods were there</label>
          <button class="main" disabled={asking}>{asking ? 'Asking…' : 'Ask the nodes'}</button>
          <button value="compare" disabled={asking}>Before and after</button>
        </fieldset>
      </form>
      <div aria-live="polite" class="answer">
        {!data && !room && !compared && !error && !asking && <p class="waiting">The answer: where each copy would go, drawn in its place, how many fit, and why not elsewhere. Or a table of before and after, with how many nodes of each kind the pods need.</p>}
        {error && <Notice title="No answer. ">{error}</Notice>}
        {room && <Room r={room} />}
        {compared && <Compared c={compared} />}
        {data && !room && short && asThey && (
          <p><button type="button" disabled={asking} onClick={() => post('api/room', 'room')}>Which pods would have to move for it?</button></p>
        )}
        {data?.notes?.length > 0 && <Notice kind="note" title="">{data.notes.map((n) => <div key={n}>{n}</div>)}</Notice>}
        {data?.pods.map((p, i) => <Fitted key={i} f={p} />)}
      </div>
    </main>
  )
}

// Compared shows the table of before and after.
function Compared({ c }) {
  return (
    <section class="fitted compared" aria-label="Before and after">
      <header class="title"><h2>Before and after</h2></header>
      {c.notes?.length > 0 && <Notice kind="note" title="">{c.notes.map((n) => <div key={n}>{n}</div>)}</Notice>}
      {c.rows.every((r) => r.before === r.after) && <Notice kind="note" title="Nothing changes. ">As set, everything fits as it does now.</Notice>}
      <Table label="What fits, before and after" columns={[['Of'], ['What'], [c.empty ? 'Empty' : 'As they are'], ['As set'], ['Change', 'num']]} rows={c.rows.map((r) => [
        <bdi>{r.about}</bdi>, r.what, r.before, <strong>{r.after}</strong>, r.change === '-' ? '–' : r.change,
      ])} />
      {c.never?.length > 0 && (
        <section>
          <h3>Pods that never fit</h3>
          <ul class="asks">{c.never.map((n) => <li key={n}>{n}</li>)}</ul>
        </section>
      )}
    </section>
  )
}

function sum(f) {
  if (f.placed === 0) return ['bad', 'No node takes it now.']
  if (f.placed + (f.untried || 0) < f.replicas) return ['doubt', `${f.placed} of ${f.replicas} replicas find a place now.`]
  if (f.untried) return ['good', `The first ${f.placed} replicas find a place now; the others were not tried.`]
  return ['good', f.replicas === 1 ? 'It finds a place now.' : `All ${f.replicas} replicas find a place now.`]
}

function Fitted({ f }) {
  const [kind, text] = sum(f)
  const taking = (f.nodes || []).filter((n) => n.copies > 0)
  return (
    <section class="fitted" aria-label={f.name}>
      <header class="title"><h2><bdi>{f.name}</bdi></h2><p class="muted">{f.asks.join(' · ')}</p></header>
      <Notice kind={kind} title={text + ' '}>{f.copies > 0 && `In all ${f.copies === 1 ? '1 copy' : f.copies.toLocaleString('en') + ' copies'} of it would fit, on ${plural(f.taking, 'node')}.`}</Notice>
      {!f.decided && <Notice kind="note" title="Berth makes no decision for it. ">It is not Guaranteed and asks for no devices, so no kubelet pins anything for it.</Notice>}
      {f.berths.length > 0 && <Copies f={f} />}
      {taking.length > 0 && (
        <section>
          <h3>How many copies fit</h3>
          <Table label="How many copies fit" columns={[['Node'], ['Copies', 'num'], ['By NUMA nodes'], ['The next is not taken because']]} rows={taking.map((n) => [
            <a href={link('nodes', n.node)}>{n.node}</a>, n.copies, Object.entries(n.byNUMANodes || {}).map(([numa, count]) => `${numa || 'none'}: ${count}`).join(', '), n.next || 'no more were counted',
          ])} />
          {f.taking > taking.length && <p class="muted">and {plural(f.taking - taking.length, 'more node')}</p>}
        </section>
      )}
      <div class={f.pictures?.length ? 'drawn' : ''}>
        {f.pictures?.length > 0 && <div>{f.pictures.map((p) => <Picture key={p.node} p={p} />)}</div>}
        <Groups title="What the nodes say" groups={f.groups || []} />
      </div>
      <Claims claims={f.claims} />
      <Refusals answers={f.nodes} />
      {f.notAsked?.length > 0 && <p class="muted">Not checked: {f.notAsked.join('; ')}.</p>}
    </section>
  )
}

function Copies({ f }) {
  return (
    <section>
      <h3>Where they would go, one after the other</h3>
      <Table label="Where they would go" columns={[['Copy', 'num'], ['Node'], ['NUMA'], ['Container'], ['CPUs', 'mono'], ['Memory'], ['Devices']]} rows={f.berths.slice(0, 20).flatMap((b, i) => (b.containers || []).map((c) => [
        i + 1, <a href={link('nodes', b.node)}>{b.node}</a>, b.numaNodes || '–', containerName(c), ...shares(c),
      ]))} />
      {f.berths.length > 20 && <p class="muted">and {f.berths.length - 20} more</p>}
    </section>
  )
}

// Room shows a plan that makes room by moving pods: the steps, and the nodes before and after.
function Room({ r }) {
  const found = r.outcome === 'found'
  const words = found
    ? r.moves.length === 0 ? 'There is room already: nothing has to move.' : `Room can be made: ${plural(r.moves.length, 'pod')} would move, ${r.moves.length === 1 ? '' : 'each '}to a place that is free before it leaves.`
    : r.outcome === 'gave up' ? 'No plan was found in time; there may be one.' : `No plan within the limit on moves makes room. ${plural(r.movable, 'pod')} can be moved at all.`
  return (
    <section class="fitted room" aria-label="Room made by moving pods">
      <header class="title"><h2>Room by moving pods</h2></header>
      <Notice kind={found ? 'good' : 'bad'} title={words + ' '}>{found && r.moves.length > 0 && 'Nothing is written here; kubectl berth defrag POD --execute carries such a plan out.'}</Notice>
      {r.moves.length > 0 && (
        <section>
          <h3>The steps</h3>
          <Table label="The steps" columns={[['Step', 'num'], ['Pod'], ['From'], ['To'], ['Recreated by']]} rows={[
            ...r.moves.map((m, i) => [
              i + 1, <bdi>{m.namespace ? `${m.namespace}/${m.name}` : m.name}</bdi>,
              <><a href={link('nodes', m.from)}>{m.from}</a>{m.fromNUMANodes && ', NUMA ' + m.fromNUMANodes}</>, <><a href={link('nodes', m.to)}>{m.to}</a>{m.toNUMANodes && ', NUMA ' + m.toNUMANodes}</>, m.controller,
            ]),
            ...r.wanted.filter((w) => w.node).map((w) => ['then', <strong><bdi>{w.name}</bdi></strong>, '–', <><a href={link('nodes', w.node)}>{w.node}</a>{w.numaNodes && ', NUMA ' + w.numaNodes}</>, '–']),
          ]} />
        </section>
      )}
      {(r.before || []).map((p, i) => {
        const after = r.after[i]
        const leaving = p.legend.filter((l) => r.moves.some((m) => m.uid && m.uid === l.uid)).map((l) => l.tag)
        return (
          <div class="versus" key={p.node}>
            <Picture p={{ ...p, new: leaving }} title="before" />
            <Picture p={after} title="after" />
          </div>
        )
      })}
      {r.staying && Object.keys(r.staying).length > 0 && (
        <section>
          <h3>Pods that are not moved</h3>
          <ul class="asks">{Object.entries(r.staying).sort((a, b) => b[1] - a[1]).map(([why, n]) => <li key={why}>{plural(n, 'pod')}: {why}</li>)}</ul>
        </section>
      )}
    </section>
  )
}

// Picture draws a node. It highlights the pods that would come or leave, or the pod under the
// pointer.
function Picture({ p, title }) {
  const [pointed, point] = useState('')
  const news = p.legend.filter((l) => p.new.includes(l.tag))
  return (
    <section class="pod-stage">
      <h3>{title ? '' : 'On '}<a href={link('nodes', p.node)}>{p.node}</a>{title && ', ' + title} <small class="muted">{news.map((l) => `${l.tag}: ${l.name}, ${l.words}`).join(' · ')}</small></h3>
      <Drawing svg={p.svg} lit={pointed} shown={p.new} setLit={point} legend={p.legend} pods={[]} label={`${p.node}${title ? ', ' + title : ''}: the machine and its berths`} />
    </section>
  )
}
