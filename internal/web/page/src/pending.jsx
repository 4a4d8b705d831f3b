// Waiting pods, grouped by the reason.
import { useAsk, useStore } from './data.js'
import { link } from './route.js'
import { GroupList, HeldBack, Notice, PodLink, Table, Waiting, WhatIf } from './parts.jsx'
import { age, plural } from './words.js'

export function Pending() {
  const { data, error } = useAsk('api/pending')
  const { cluster } = useStore()
  if (error) return <main><h1>Pods that wait</h1><Notice title="">{error}</Notice></main>
  if (!data) return <Waiting what="Looking for pods that wait…" />
  return (
    <main>
      <h1>Pods that wait <small class="muted">{data.total ? `${plural(data.total, 'pod')}, ${plural(data.groups.length, 'reason')}` : ''}</small></h1>
      {!data.total && <Notice kind="good" title="No pod waits. ">Every pod has a node.</Notice>}
      <div class="cards">
        {data.groups.map((g) => (
          <section class="card" key={g.pods[0].namespace + '/' + g.pods[0].name}>
            <h2>{plural(g.count, 'pod')} <small>{g.title || g.reason}</small></h2>
            <Why g={g} />
            <p><WhatIf {...g.pods[0]} /></p>
            {g.gang && <p>Gang <a href={link('gangs', g.gang.namespace, g.gang.source, g.gang.name)}><bdi>{g.gang.namespace}/{g.gang.name}</bdi></a></p>}
            <Table label={`Pods like ${g.pods[0].namespace}/${g.pods[0].name}`} columns={[['Pod'], ['Age', 'num']]} rows={g.pods.map((p) => [<PodLink p={p} />, cluster ? age(cluster.now - p.created) : ''])} />
            {g.count > g.pods.length && <p class="muted">and {g.count - g.pods.length} more, younger ones</p>}
          </section>
        ))}
      </div>
    </main>
  )
}

// Why shows the nodes' answers, and the scheduler's message in a closed fold. If no node was asked,
// it shows only the message.
function Why({ g }) {
  if (!g.said && g.heldBack) return <HeldBack h={g.heldBack} />
  if (!g.said) return <p class="why">{g.message}</p>
  const [pod] = g.pods
  return (
    <>
      {g.count > 1 && <p class="muted">What the nodes say to <bdi>{pod.namespace}/{pod.name}</bdi>, the oldest:</p>}
      {g.heldBack && <HeldBack h={g.heldBack} />}
      <GroupList groups={g.said} held={g.heldBack} />
      {g.fits?.map((f) => <p key={f}>Would fit now: {f}</p>)}
      {g.reason === 'Unschedulable' && <details><summary>What the scheduler wrote</summary><p>{g.message}</p></details>}
    </>
  )
}
