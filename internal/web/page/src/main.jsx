// The frame of the page: header, views, keys.
import { render } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { clusterNow, follow, setToken, useStore } from './data.js'
import { link, useRoute } from './route.js'
import { Cluster } from './cluster.jsx'
import { Fit } from './fit.jsx'
import { Gangs, GangView } from './gangs.jsx'
import { NodeView } from './node.jsx'
import { PodView } from './pod.jsx'
import { Pending } from './pending.jsx'
import { Pods } from './pods.jsx'
import { Shadow } from './shadow.jsx'
import { Stranded } from './stranded.jsx'
import { Notice } from './parts.jsx'
import { age } from './words.js'

const views = [['', 'Cluster'], ['pods', 'Pods'], ['pending', 'Waiting'], ['gangs', 'Gangs'], ['stranded', 'Stranded'], ['fit', 'What if']]

function View({ parts }) {
  const [view, a, b, d] = parts
  if (!view) return <Cluster />
  if (view === 'nodes' && a) return <NodeView key={a} name={a} />
  if (view === 'pods' && a && b) return <PodView key={a + '/' + b} namespace={a} name={b} />
  if (view === 'pods') return <Pods />
  if (view === 'pending') return <Pending />
  if (view === 'gangs' && d) return <GangView key={parts.join('/')} namespace={a} from={b} name={d} />
  if (view === 'gangs') return <Gangs />
  if (view === 'stranded') return <Stranded />
  if (view === 'fit') return <Fit />
  if (view === 'shadow') return <Shadow />
  return <main><h1>No such view</h1><Notice title="">This address names no view. <a href={link()}>To the cluster</a></Notice></main>
}

function Page() {
  const s = useStore()
  const { parts } = useRoute()
  const help = useRef(null)
  useEffect(() => {
    const key = (e) => {
      if (e.ctrlKey || e.metaKey || e.altKey) return
      const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)
      if (e.key === 'Escape') {
        if (typing) e.target.blur()
        else if (parts.length && !help.current?.open) location.hash = link(...(['pods', 'gangs'].includes(parts[0]) && parts.length > 1 ? [parts[0]] : []))
        return
      }
      if (typing) return
      const views = { c: link(), p: link('pods'), w: link('pending'), g: link('gangs'), s: link('stranded'), f: link('fit') }
      if (views[e.key]) location.hash = views[e.key]
      else if (e.key === '/') {
        document.getElementById('filter')?.focus()
        e.preventDefault()
      } else if (e.key === '?') help.current?.showModal()
    }
    addEventListener('keydown', key)
    return () => removeEventListener('keydown', key)
  }, [parts])
  useEffect(() => {
    const name = parts.slice(1).join('/') || views.find(([v]) => v === (parts[0] || ''))?.[1] || ''
    document.title = (name ? name + ' · ' : '') + 'Berth'
  }, [parts])
  const view = parts[0] === 'nodes' ? '' : parts[0] || ''
  return (
    <>
      <header class="bar">
        <a class="brand" href={link()} aria-label="Berth, the map"><img src="icon.svg" alt="" width="22" height="22" />Berth</a>
        <nav aria-label="Views">{[...views, ...(s.cluster?.shadow ? [['shadow', 'Shadow']] : [])].map(([v, text]) => <a key={v} href={link(...(v ? [v] : []))} aria-current={view === v ? 'page' : undefined}>{text}</a>)}</nav>
        <span class="from" title={s.cluster?.where}>{s.cluster?.where}</span>
        <Pulse s={s} />
        <button type="button" class="help" onClick={() => help.current?.showModal()} aria-label="Keys">?</button>
      </header>
      {(s.lost || !s.alive) && s.number > 0 && s.cluster?.moves && !s.needsToken ? <Old s={s} /> : s.problem && !s.needsToken && <Notice title="Not up to date: ">{s.problem}</Notice>}
      {s.notes.map((n) => <Notice key={n} kind="doubt" title="">{n}</Notice>)}
      {s.needsToken ? <Token problem={s.problem} /> : <View parts={parts} />}
      <dialog ref={help} aria-label="Keys">
        <h2>Keys</h2>
        <dl>
          <dt><kbd>c</kbd></dt><dd>the cluster</dd>
          <dt><kbd>p</kbd></dt><dd>pods</dd>
          <dt><kbd>w</kbd></dt><dd>pods that wait</dd>
          <dt><kbd>g</kbd></dt><dd>gangs: pods that start together</dd>
          <dt><kbd>s</kbd></dt><dd>stranded: free, and of little use</dd>
          <dt><kbd>f</kbd></dt><dd>what if: where new pods would go</dd>
          <dt><kbd>d</kbd></dt><dd>on the page of the cluster: all nodes at a glance, or line by line</dd>
          <dt><kbd>/</kbd></dt><dd>filter or search</dd>
          <dt><kbd>↑</kbd> <kbd>↓</kbd> <kbd>←</kbd> <kbd>→</kbd> <kbd>Enter</kbd></dt><dd>on the page of the cluster: choose a node, open it</dd>
          <dt><kbd>Esc</kbd></dt><dd>back</dd>
        </dl>
        <form method="dialog"><button>Close</button></form>
      </dialog>
    </>
  )
}

// useSecond draws the component again every second while ages is set, because it shows an age.
function useSecond(ages) {
  const [, again] = useState(0)
  useEffect(() => {
    if (!ages) return
    const timer = setInterval(() => again((n) => n + 1), 1000)
    return () => clearInterval(timer)
  }, [ages])
}

// sinceOf returns the time of the data on the page, in seconds: the time when the server lost the
// cluster, or of the last answer from the server.
const sinceOf = (s) => (s.lost ? s.lost.since : s.now)

// Pulse shows whether the data is live, or how old it is.
function Pulse({ s }) {
  const old = s.cluster?.moves && s.number > 0 && (s.lost || !s.alive)
  useSecond(old)
  const [kind, text] = s.cluster && !s.cluster.moves ? ['still', 'snapshot'] : old ? ['dead', age(clusterNow() - sinceOf(s)) + ' old'] : s.alive ? ['alive', 'live'] : ['dead', 'not connected']
  return <span class={'pulse ' + kind}><i aria-hidden="true" />{text}</span>
}

const resourceWords = { nodetopologies: 'reports of nodes', leases: 'heartbeats of agents', numatopologies: 'Numatopologies', noderesourcetopologies: 'NodeResourceTopologies' }

// Old shows the time of the data, and which data is not updated. It does not show the age, as Pulse
// does, because screen readers would read a notice aloud each time it changes.
function Old({ s }) {
  const at = new Date(sinceOf(s) * 1000)
  const whole = !s.lost || ['nodes', 'pods', 'nodetopologies'].every((r) => s.lost.resources.includes(r))
  const resources = (s.lost?.resources || []).map((r) => resourceWords[r] || r).join(', ')
  return (
    <Notice title={s.lost ? 'The API server does not answer. ' : 'The server of this page does not answer. '}>
      {whole ? 'This page' : resources[0].toUpperCase() + resources.slice(1)} {whole ? 'is' : 'are'} as of {at.toLocaleTimeString('en-GB')}. Since then nothing is known of {s.lost ? resources : 'the cluster'}. It is tried again until it works. <span class="muted">{s.lost ? s.lost.why : s.problem}</span>
    </Notice>
  )
}

function Token({ problem }) {
  const submit = (e) => {
    e.preventDefault()
    setToken(e.currentTarget.elements.token.value.trim())
  }
  return (
    <main class="token">
      <h1>Who are you?</h1>
      <p>This map shows what the cluster lets you see. Paste a token, for example from <code>kubectl create token NAME -n NAMESPACE</code>. It stays in this tab.</p>
      {problem && <Notice title="">{problem}</Notice>}
      <form onSubmit={submit}>
        <label class="choice grow"><span>Token</span><input name="token" type="password" autocomplete="off" required /></label>
        <button>Show the map</button>
      </form>
    </main>
  )
}

render(<Page />, document.getElementById('page'))
follow()
