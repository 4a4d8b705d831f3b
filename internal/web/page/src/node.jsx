// The page of a node: its machine with the pods in their berths.
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { useAsk, useStore } from './data.js'
import { link } from './route.js'
import { Notice, Status, Table, Waiting, names } from './parts.jsx'
import { age } from './words.js'

export function NodeView({ name }) {
  const { data, error } = useAsk('api/nodes/' + encodeURIComponent(name))
  const { cluster } = useStore()
  const [lit, setLit] = useState('')
  if (error) return <main><h1>{name}</h1><Notice title="Nothing to show. ">{error}</Notice></main>
  if (!data) return <Waiting what={`Reading node ${name}…`} />
  const row = data.row
  const legend = data.legend || []
  return (
    <main class="node-page">
      <header class="title">
        <h1>{name}</h1>
        <Status row={row} />
        <p class="muted">
          {[row.authority && `authority ${row.authority}`, row.policy && `${row.policy}, scope ${row.scope}`, row.cpuManager && `CPU manager ${row.cpuManager}`, row.memoryManager && `memory manager ${row.memoryManager}`,
            row.kubeletVersion && 'kubelet ' + row.kubeletVersion, row.pool && 'pool ' + row.pool, 'guarantee ' + row.guarantee].filter(Boolean).join(' · ')}
        </p>
      </header>
      {[row.trouble, ...(row.warnings || [])].filter(Boolean).map((t, i) => (
        <Notice key={i} kind={t === row.trouble ? 'bad' : 'doubt'} title={t.reason + ': '}>{t.message}{t.advice && <code class="advice">{t.advice}</code>}</Notice>
      ))}
      {data.problem && !row.trouble && <Notice title="Nothing is known of its berths. ">{data.problem}</Notice>}
      <div class="split">
        {data.svg && <Drawing svg={data.svg} lit={lit} setLit={setLit} legend={legend} pods={data.pods} />}
        <div class="beside">
          <Berths legend={legend} pods={data.pods} lit={lit} setLit={setLit} />
          <Devices pci={data.pci} links={data.links} />
          <Driven d={data.driven} />
        </div>
        <Conditions list={data.conditions} now={cluster?.now} />
      </div>
      <details>
        <summary>Machine string and labels</summary>
        <pre class="wrap">{data.machine}</pre>
        <ul class="labels">{Object.entries(data.labels || {}).map(([k, v]) => <li key={k}><code>{k}={v}</code></li>)}</ul>
      </details>
    </main>
  )
}

// Driven shows the devices of DRA drivers, and how the devices of the pods' claims are aligned.
function Driven({ d }) {
  if (!d) return null
  return (
    <section>
      <h2>Devices in ResourceSlices</h2>
      <Table label="Devices in ResourceSlices" columns={[['NUMA'], ['Driver'], ['Free'], ['Taken']]} rows={(d.devices || []).map((r) => [r.numaNode, r.driver, names(short(r, r.free), r.freeCount), names(short(r, r.taken), r.takenCount)])} />
      {d.claims?.length > 0 && <h3>Claims of its pods</h3>}
      {d.claims?.length > 0 && <Table label="Claims of its pods" columns={[['Pod'], ['Claim'], ['Asks'], ['Alignment'], ['Why']]} rows={d.claims.map((c) => [
        <a href={link('pods', c.namespace, c.pod)}><bdi>{c.namespace}/{c.pod}</bdi></a>, c.claim, c.asks || '–', c.alignment, c.why,
      ])} />}
    </section>
  )
}

// short returns names of devices without their driver, which has its own column.
const short = (r, list) => (list || []).map((name) => (name.startsWith(r.driver + '/') ? name.slice(r.driver.length + 1) : name))

// Drawing shows the server's drawing of a machine. It highlights all resources of the pod under the
// pointer, or otherwise of the pods in shown.
export function Drawing({ svg, lit, setLit, legend, pods, shown = [], label = 'The machine and its berths' }) {
  const box = useRef(null)
  useLayoutEffect(() => {
    const drawn = new DOMParser().parseFromString(svg, 'image/svg+xml').documentElement
    box.current.replaceChildren(document.importNode(drawn, true))
    box.current.classList.toggle('wider', box.current.scrollWidth > box.current.clientWidth)
  }, [svg])
  useLayoutEffect(() => {
    const tags = lit ? [lit] : shown
    box.current.classList.toggle('focus', tags.length > 0)
    for (const el of box.current.querySelectorAll('[data-pod]')) el.classList.toggle('lit', tags.includes(el.dataset.pod))
  }, [lit, svg, shown.join()])
  const over = (e) => setLit(e.target.closest('[data-pod]')?.dataset.pod || '')
  const open = (e) => {
    const tag = e.target.closest('[data-pod]')?.dataset.pod
    const pod = pods.find((p) => p.uid === legend.find((l) => l.tag === tag)?.uid)
    if (pod?.namespace) location.hash = link('pods', pod.namespace, pod.name)
  }
  return <section class="stage" aria-label={label} tabIndex={0} ref={box} onMouseOver={over} onMouseLeave={() => setLit('')} onClick={open} />
}

function Swatch({ entry }) {
  const texture = entry.class.split(' ').find((c) => /^t\d$/.test(c))
  return (
    <svg class="machine berths swatch" width="28" height="20" aria-hidden="true">
      <rect class={'cpu own ' + entry.class} x="0" y="0" width="28" height="20" rx="3" />
      {texture && <rect fill={`url(#${texture})`} width="28" height="20" rx="3" />}
      <text class="tag mid" x="14" y="14">{entry.tag}</text>
    </svg>
  )
}

// Berths lists the pods with exclusive resources, then Reservations, then the other pods.
function Berths({ legend, pods, lit, setLit }) {
  const byUID = new Map(pods.map((p) => [p.uid, p]))
  const rest = pods.filter((p) => !legend.some((l) => l.uid === p.uid))
  const held = legend.filter((l) => l.held)
  return (
    <section class="berths-list" aria-labelledby="berths-head">
      <h2 id="berths-head">{legend.length > held.length ? 'Pods in their berths' : 'No pod has a berth here'}</h2>
      <p class="muted">Grey CPUs are reserved for the system or kept idle. The others without a letter are free or shared.</p>
      <Entries list={legend.filter((l) => !l.held)} byUID={byUID} lit={lit} setLit={setLit} />
      {held.length > 0 && <h3>Held by Reservations, for pods to come</h3>}
      <Entries list={held} byUID={byUID} lit={lit} setLit={setLit} />
      {rest.length > 0 && <h3>Without a berth</h3>}
      <ul>
        {rest.map((p) => (
          <li key={p.uid}><span>{p.namespace ? <a href={link('pods', p.namespace, p.name)}><bdi>{p.namespace}/{p.name}</bdi></a> : <bdi>{p.name}</bdi>}<small>{p.state}</small></span></li>
        ))}
      </ul>
    </section>
  )
}

function Entries({ list, byUID, lit, setLit }) {
  return (
    <ul>
      {list.map((l) => {
        const pod = byUID.get(l.uid)
        const point = { onMouseEnter: () => setLit(l.tag), onMouseLeave: () => setLit(''), onFocusCapture: () => setLit(l.tag), onBlurCapture: () => setLit('') }
        return (
          <li key={l.tag} class={lit === l.tag ? 'lit' : ''} {...point}>
            <Swatch entry={l} />
            <span>
              {pod?.namespace ? <a href={link('pods', pod.namespace, pod.name)}><bdi>{l.name}</bdi></a> : <bdi>{l.name}</bdi>}
              <small>{l.words}</small>
              {l.cpus && <small class="mono">CPUs {l.cpus}</small>}
              {pod?.resize && <small class={pod.resize.state === 'moving' ? 'mono' : 'warn'}>resize {pod.resize.state}: {pod.resize.message}</small>}
              {pod && pod.outcome === 'differs' && <small class="warn">has other CPUs than promised</small>}
            </span>
          </li>
        )
      })}
    </ul>
  )
}

// Devices shows the PCI devices of each NUMA node, by root complex and switch.
function Devices({ pci, links }) {
  if (!pci?.length) return null
  return (
    <section aria-labelledby="devices-head">
      <h2 id="devices-head">Devices</h2>
      <div class="pci">{pci.map((b) => <section key={b.text}><h3>{b.text}</h3><Tree list={b.below} /></section>)}</div>
      {links && <><h3>Links between devices</h3><pre class="wrap">{links.trim()}</pre></>}
    </section>
  )
}

function Tree({ list }) {
  return <ul class="tree">{list.map((b) => <li key={b.text}>{b.text}{b.below && <Tree list={b.below} />}</li>)}</ul>
}

function Conditions({ list, now }) {
  if (!list?.length) return null
  return (
    <section class="conditions">
      <h2>Conditions</h2>
      <Table label="Conditions" columns={[['Source'], ['Condition'], ['Status'], ['Reason'], ['Since'], ['Message']]} rows={list.map((c) => [c.source, c.type, c.status, c.reason, c.since && now ? age(now - c.since) : '–', c.message])} />
    </section>
  )
}
