// The findings of shadow mode: how often Berth's predictions came true while other schedulers
// placed the pods.
import { useAsk } from './data.js'
import { link } from './route.js'
import { Notice, Table, Waiting } from './parts.jsx'

const said = (a) => (a ? [a.outcome, a.reason, a.certainty].filter(Boolean).join(' ') : '–')

export function Shadow() {
  const { data, error } = useAsk('api/shadow')
  if (error) return <main><h1>Shadow</h1><Notice title="">{error}</Notice></main>
  if (!data) return <Waiting what="Asking shadow mode…" />
  const { view, reasons } = data
  const d = view.day
  const mistakes = d.wrong + d.missed + d.falseAlarms
  const counts = [
    ['bound', d.pods, `${d.pinned} pinned; ${view.open} wait for the kubelet's answer`],
    ['judged', d.judged, 'the sum of the next seven rows'],
    ['exact', d.exact, 'admitted, with the CPUs, memory and devices that were predicted'],
    ['by verdict', d.byVerdict, 'admitted as predicted; the CPUs could not be predicted'],
    ['either', d.either, 'the answer depended on pods that were leaving, and was one of the predicted answers'],
    ['foretold', d.foretold, 'rejected as predicted'],
    ['wrong', d.wrong, 'admitted, but with other CPUs, memory or devices than predicted'],
    ['missed', d.missed, 'rejected, but predicted to be admitted'],
    ['false alarms', d.falseAlarms, 'admitted, but predicted to be rejected'],
    ...reasons.filter((r) => d.notJudged[r.reason]).map((r) => ['not judged', d.notJudged[r.reason], r.text]),
    ['elsewhere', d.elsewhere, 'rejected, but another node would have admitted them'],
    ['split', d.split, 'on more NUMA nodes than another node would have needed'],
    ['stranded', d.stranded, 'devices left without CPUs, which another node would have avoided'],
    ['not looked', d.notLooked, 'Berth did not search another node for them'],
  ]
  return (
    <main>
      <h1>Shadow <small class="muted">the last 24 hours</small></h1>
      <Notice kind={mistakes ? 'doubt' : 'good'} title="">{view.summary}</Notice>
      <Table label="Predictions" columns={[['Result'], ['Pods', 'num'], ['Meaning']]} rows={counts} />
      {view.claims && (
        <section>
          <h2>Pods with ResourceClaims <small class="muted">{Object.entries(view.claims.pods || {}).map(([how, n]) => `${how}: ${n}`).join(', ')}</small></h2>
          {view.claims.misaligned?.length > 0 && <Table label="Misaligned claims" columns={[['Misaligned'], ['Node'], ['Scheduler'], ['Why']]} rows={view.claims.misaligned.map((p) => [
            <a href={link('pods', p.namespace, p.name)}><bdi>{p.namespace}/{p.name}</bdi></a>, <a href={link('nodes', p.node)}>{p.node}</a>, p.scheduler, p.why,
          ])} />}
        </section>
      )}
      {view.pods?.length > 0 && (
        <section>
          <h2>Pods to look at</h2>
          <Table label="Pods to look at" columns={[['Pod'], ['Node'], ['Predicted'], ['Kubelet'], ['Result'], ["Berth's node"]]} rows={view.pods.map((p) => [
            <a href={link('pods', p.namespace, p.name)}><bdi>{p.namespace}/{p.name}</bdi></a>, <a href={link('nodes', p.node)}>{p.node}</a>, said(p.expected), said(p.got), <>{p.reason ? `${p.result}: ${p.reason}` : p.result}{p.capture && <><br /><small className="muted">{p.capture}</small></>}</>, p.instead ? `${p.instead.node} (${p.instead.why} here)` : '–',
          ])} />
        </section>
      )}
    </main>
  )
}
