// The page of a pod: where it is and what it was promised, or why it fits nowhere.
import { useState } from 'preact/hooks'
import { useAsk } from './data.js'
import { Drawing } from './node.jsx'
import { link } from './route.js'
import { Claims, Groups, HeldBack, Notice, Refusals, Table, Waiting, WhatIf, containerName, shares } from './parts.jsx'

export function PodView({ namespace, name }) {
  const { data, error } = useAsk(`api/pods/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`)
  if (error) return <main><h1><bdi>{namespace}/{name}</bdi></h1><Notice title="Nothing to show. ">{error}</Notice></main>
  if (!data) return <Waiting what={`Asking the nodes about ${namespace}/${name}…`} />
  const { pod, explained: e, problem } = data
  return (
    <main>
      <header class="title">
        <h1><bdi>{namespace}/{name}</bdi></h1>
        <p class="where">
          {pod.node ? <>{pod.state} on <a href={link('nodes', pod.node)}>{pod.node}</a></> : pod.state}
          {pod.numaNodes && <> · NUMA node {pod.numaNodes}</>}
          {e && <> · scheduler {e.scheduler}</>}
        </p>
      </header>
      {pod.resize && <Notice kind={pod.resize.state === 'moving' ? 'note' : 'doubt'} title={`Resize ${pod.resize.state}: `}>{pod.resize.message}</Notice>}
      {problem && <Notice title="It cannot be explained. ">{problem}</Notice>}
      {pod.node && <Where pod={pod} />}
      {!pod.node && <p><WhatIf namespace={namespace} name={name} /></p>}
      {e && <Explained e={e} />}
    </main>
  )
}

// Where draws the pod's node and highlights the pod.
function Where({ pod }) {
  const { data } = useAsk('api/nodes/' + encodeURIComponent(pod.node))
  const [pointed, point] = useState('')
  if (!data?.svg) return null
  const own = (data.legend || []).find((l) => l.uid === pod.uid)
  if (!own) return null
  return (
    <section class="pod-stage">
      <h2>Its berth on {pod.node} <small class="muted">letter {own.tag}: {own.words}</small></h2>
      <Drawing svg={data.svg} lit={pointed || own.tag} setLit={point} legend={data.legend} pods={data.pods} />
    </section>
  )
}

export function Explained({ e }) {
  return (
    <>
      {e.heldBack && <HeldBack h={e.heldBack} />}
      {e.message && (e.refused || !e.groups?.length) && <Notice kind="doubt" title={e.refused ? 'Its kubelet: ' : 'The scheduler: '}>{e.message}</Notice>}
      {e.memberOf && <Gang gang={e.memberOf} waits={!e.node} />}
      {e.unserved && <Notice title="No scheduler looks at it: ">{e.unserved.message}<code class="advice">{e.unserved.advice}</code></Notice>}
      {e.trouble && <Notice title={`Node ${e.node}: `}>{e.trouble.message}{e.trouble.advice && <code class="advice">{e.trouble.advice}</code>}</Notice>}
      {!e.decided && <Notice kind="note" title="Berth makes no decision for it. ">It is not Guaranteed and asks for no devices, so no kubelet pins anything for it.</Notice>}
      {(e.reservations || []).map((r) => (
        <Notice key={r.name} kind={r.has || r.takes ? 'good' : 'doubt'} title={`Reservation ${r.name}: `}>
          {r.has ? 'the pod uses its place.' : r.takes ? `it holds a place for the pod on node ${r.node}.` : r.message}
        </Notice>
      ))}
      <section>
        <h2>It asks for</h2>
        <ul class="asks">{(e.asks || []).map((a) => <li key={a}>{a}</li>)}</ul>
        {(e.fractions || []).map((f) => <Notice key={f} kind="note" title="Shared CPUs. ">{f}</Notice>)}
      </section>
      {(e.promise || e.holds) && <Promise_ e={e} />}
      {e.groups?.length > 0 && <Groups title={e.node ? (e.refused ? 'Asked again now' : 'What other nodes would say now') : e.memberOf ? 'What the nodes say to this pod alone' : 'What the nodes say'} groups={e.groups} held={e.heldBack} />}
      {e.alternatives?.length > 0 && (
        <section>
          <h2>Would fit now</h2>
          <Table label="Would fit now" columns={[['With'], ['On']]} rows={e.alternatives.map((a) => [
            a.text, <span class="names">{a.nodes.slice(0, 12).map((n) => <a key={n} href={link('nodes', n)}>{n}</a>)}{a.nodes.length > 12 && <em>and {a.nodes.length - 12} more</em>}</span>,
          ])} />
        </section>
      )}
      {e.message && !e.refused && e.groups?.length > 0 && <details><summary>What the scheduler wrote</summary><p>{e.message}</p></details>}
      <Claims claims={e.claims} />
      <Refusals answers={e.nodes || []} />
    </>
  )
}

// Gang shows the state of the pod's gang, with a link to the gang.
function Gang({ gang, waits }) {
  const held = waits && ['forming', 'wrong'].includes(gang.state)
  return (
    <Notice kind={held ? 'doubt' : 'note'} title="Its gang: ">
      {gang.name && <><a href={link('gangs', gang.namespace, gang.source, gang.name)}><bdi>{gang.namespace}/{gang.name}</bdi></a> is </>}
      {gang.state}{held && `: ${gang.why}`}
    </Notice>
  )
}

const outcomes = {
  kept: ['good', 'The node gave exactly what was promised.'],
  differs: ['bad', 'The node gave something other than promised.'],
  'not yet reported': ['note', 'The node has not reported it yet.'],
  'admitted as promised': ['good', 'It was admitted, as promised. Which CPUs it would get could not be promised.'],
  refused: ['bad', 'The kubelet refused it.'],
}

function Promise_({ e }) {
  const rows = [...(e.promise?.containers || []).map((c) => [e.promise.certainty === 'exact' ? 'promised' : 'expected', c]), ...(e.holds?.containers || []).map((c) => ['reported', c])]
  const [kind, text] = outcomes[e.outcome] || []
  return (
    <section>
      <h2>Promised, and reported</h2>
      {text && <Notice kind={kind} title="">{text}</Notice>}
      <Table label="Promised, and reported" columns={[['Container'], ['Source'], ['NUMA'], ['CPUs', 'mono'], ['Memory'], ['Devices']]} rows={rows.map(([what, c]) => [containerName(c), what, c.numaNodes || '–', ...shares(c)])} />
      {e.promise && <p class="muted">{e.promise.certainty}, guarantee {e.promise.guarantee}, Binding {e.promise.sequence}, decided on report {e.promise.report}</p>}
    </section>
  )
}
