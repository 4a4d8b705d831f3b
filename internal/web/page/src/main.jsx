// The frame: header, views, keys.
import { render } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { follow, setToken, useStore } from './data.js'
import { link, useRoute } from './route.js'
import { Cluster } from './cluster.jsx'
import { Fit } from './fit.jsx'
import { Gangs, GangView } from './gangs.jsx'
import { NodeView } from './node.jsx'
import { PodView } from './pod.jsx'
import { Pending } from './pending.jsx'
import { Pods } from './pods.jsx'
import { Stranded } from './stranded.jsx'
import { Notice } from './parts.jsx'

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
  const state = !s.cluster?.moves && s.cluster ? ['still', 'snapshot'] : s.alive ? ['alive', 'live'] : ['dead', 'not connected']
  return (
    <>
      <header class="bar">
        <a class="brand" href={link()} aria-label="Berth, the map"><img src="icon.svg" alt="" width="22" height="22" />Berth</a>
        <nav aria-label="Views">{views.map(([v, text]) => <a key={v} href={link(...(v ? [v] : []))} aria-current={view === v ? 'page' : undefined}>{text}</a>)}</nav>
        <span class="from" title={s.cluster?.where}>{s.cluster?.where}</span>
        <span class={'pulse ' + state[0]}><i aria-hidden="true" />{state[1]}</span>
        <button type="button" class="help" onClick={() => help.current?.showModal()} aria-label="Keys">?</button>
      </header>
      {s.problem && !s.needsToken && <Notice title="Not up to date: ">{s.problem}</Notice>}
      {(s.cluster?.notes || []).map((n) => <Notice key={n} kind="doubt" title="">{n}</Notice>)}
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

function Token({ problem }) {
  const submit = (e) => {
    e.preventDefault()
    setToken(e.currentTarget.elements.token.value.trim())
  }
  return (
    <main class="token">
      <h1>Who are you?</h1>
      <p>This map shows what the cluster lets you see. Paste a token, for example of <code>kubectl create token NAME -n NAMESPACE</code>. It stays in this tab.</p>
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
