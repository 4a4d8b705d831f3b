// The page of the cluster. Each node is a line with a cell for each NUMA node. For many nodes, it
// shows small figures instead (dense.jsx).
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import { useAsk, useStore } from './data.js'
import { link, setQuery, useRoute } from './route.js'
import { Columns, Scale } from './cells.jsx'
import { Dense, denseFrom } from './dense.jsx'
import { Choice, Spark, Waiting } from './parts.jsx'
import { amount, amountOf, collator, plural, resourceName, resourcesOf, status } from './words.js'

// The height of a line, as in app.css. On a narrow screen the cells are below the name.
const narrow = matchMedia('(max-width: 640px)')
const lineHeight = () => (narrow.matches ? 64 : 36)

function useLineHeight() {
  const [high, set] = useState(lineHeight)
  useEffect(() => {
    const f = () => set(lineHeight())
    narrow.addEventListener('change', f)
    return () => narrow.removeEventListener('change', f)
  }, [])
  return high
}

const free = (row, r) => (row.numaNodes || []).reduce((sum, n) => sum + (amountOf(n, r)?.free || 0), 0)
const block = (row, r) => (row.numaNodes || []).reduce((most, n) => Math.max(most, amountOf(n, r)?.free || 0), 0)
const usedShare = (row, r) => {
  const all = (row.numaNodes || []).reduce((sum, n) => sum + (amountOf(n, r)?.total || 0), 0)
  return all ? 1 - free(row, r) / all : -1
}
// lacks returns 1 if a node has none of the resource. Such nodes come last in every order.
const lacks = (row, r) => ((row.numaNodes || []).some((n) => amountOf(n, r)?.total) ? 0 : 1)
const badness = { bad: 0, doubt: 1, good: 2 }

const orders = {
  name: ['Name', (a, b) => collator.compare(a.name, b.name)],
  free: ['Most free', (a, b, r) => free(b, r) - free(a, r)],
  block: ['Largest free on one NUMA node', (a, b, r) => block(b, r) - block(a, r)],
  used: ['Most used', (a, b, r) => usedShare(b, r) - usedShare(a, r)],
  pods: ['Most pods', (a, b) => b.pods + b.inFlight - a.pods - a.inFlight],
  status: ['Trouble first', (a, b) => badness[status(a).level] - badness[status(b).level]],
}

function wanted(row, query) {
  const has = (key, values) => !query.get(key) || values.includes(query.get(key))
  const words = (query.get('q') || '').toLowerCase().split(/\s+/).filter(Boolean)
  const text = [row.name, row.pool, row.policy, status(row).word, ...(row.namespaces || [])].join(' ').toLowerCase()
  return words.every((w) => text.includes(w)) && has('pool', [row.pool]) && has('policy', [row.policy || 'none']) &&
    has('namespace', row.namespaces || []) && has('guarantee', [row.guarantee]) && has('status', [status(row).level])
}

export function Cluster() {
  const { rows, ready, number } = useStore()
  const { query } = useRoute()
  const all = useMemo(() => [...rows.values()], [number, rows])
  const resources = useMemo(() => resourcesOf(all), [all])
  const resource = resources.includes(query.get('r')) ? query.get('r') : resources[0] || 'cpu'
  const dense = (query.get('view') || (all.length >= denseFrom ? 'dense' : 'lines')) === 'dense'
  const order = orders[query.get('sort')] ? query.get('sort') : dense ? 'used' : 'name'
  useLayoutEffect(() => {
    const key = (e) => {
      if (e.key === 'd' && e.target === document.body && !e.ctrlKey && !e.metaKey && !e.altKey) setQuery({ view: dense ? 'lines' : 'dense' })
    }
    addEventListener('keydown', key)
    return () => removeEventListener('keydown', key)
  }, [dense])
  const shown = useMemo(() => {
    const list = all.filter((row) => wanted(row, query))
    return list.sort((a, b) => lacks(a, resource) - lacks(b, resource) || orders[order][1](a, b, resource) || orders.name[1](a, b))
  }, [all, query, order, resource])
  if (!ready && !all.length) return <Waiting what="Reading the cluster…" />
  return (
    <main class="cluster">
      <h1 class="hidden">Cluster</h1>
      <Totals />
      <Tools all={all} resources={resources} resource={resource} order={order} query={query} shown={shown.length} dense={dense} />
      {dense ? <Dense rows={shown} resource={resource} fold={!query.get('each')} /> : <Heatmap rows={shown} resource={resource} />}
    </main>
  )
}

// Totals shows the sums of the cluster, each with its course over the last hours.
function Totals() {
  const { data } = useAsk('api/history')
  if (!data) return <div class="totals" />
  const points = data.points
  const now = points[points.length - 1]
  const names = Object.keys(now.total)
  const resources = ['cpu', 'memory', ...names.filter((r) => r.includes('/')).sort()].filter((r) => now.total[r]).slice(0, 4)
  return (
    <div class="totals">
      {resources.map((r) => (
        <Total key={r} name={resourceName(r) + ' free'} value={amount(r, now.free[r] || 0)} of={amount(r, now.total[r])} values={points.map((p) => p.free[r] || 0)} />
      ))}
      <Total name="Whole NUMA nodes" value={now.whole.toLocaleString('en')} values={points.map((p) => p.whole)} />
      <Total name="Nodes in trouble" value={now.troubled.toLocaleString('en')} of={now.nodes.toLocaleString('en')} values={points.map((p) => p.troubled)} href={link() + '?status=bad'} />
      <Total name="Pods that wait" value={now.pending.toLocaleString('en')} values={points.map((p) => p.pending)} href={link('pending')} />
    </div>
  )
}

function Total({ name, value, of, values, href }) {
  const body = [
    <span class="name" key="n">{name}</span>,
    <span class="value" key="v">{value}{of !== undefined && <small> of {of}</small>}</span>,
    <Spark key="s" values={values} label={`${name} in the last hours`} />,
  ]
  return href ? <a class="total" href={href}>{body}</a> : <div class="total">{body}</div>
}

const distinct = (all, of) => [...new Set(all.flatMap(of).filter(Boolean))].sort()

const shows = [['dense', 'At a glance'], ['each', 'Every node'], ['lines', 'Lines']]

function Tools({ all, resources, resource, order, query, shown, dense }) {
  const pick = (key) => (value) => setQuery({ [key]: value })
  const options = (values, text = (v) => v) => [['', 'all'], ...values.map((v) => [v, text(v)])]
  const pools = distinct(all, (r) => r.pool)
  const filtered = shown !== all.length
  const more = (
    <>
      {pools.length > 1 && <Choice label="Pool" value={query.get('pool') || ''} options={options(pools)} onChange={pick('pool')} />}
      <Choice label="Policy" value={query.get('policy') || ''} options={options(distinct(all, (r) => r.policy || 'none'))} onChange={pick('policy')} />
      <Choice label="Namespace" value={query.get('namespace') || ''} options={options(distinct(all, (r) => r.namespaces || []))} onChange={pick('namespace')} />
      <Choice label="Guarantee" value={query.get('guarantee') || ''} options={options(distinct(all, (r) => r.guarantee))} onChange={pick('guarantee')} />
      <Choice label="State" value={query.get('status') || ''} options={options(['good', 'doubt', 'bad'], (v) => ({ good: 'ready', doubt: 'doubtful', bad: 'in trouble' })[v])} onChange={pick('status')} />
    </>
  )
  return (
    <div class="tools" role="search">
      <label class="choice grow">
        <span>Filter</span>
        <input id="filter" type="search" placeholder="name, pool…  ( / )" value={query.get('q') || ''} onInput={(e) => setQuery({ q: e.currentTarget.value })} />
      </label>
      <Choice label="Show" value={dense ? (query.get('each') ? 'each' : 'dense') : 'lines'} options={shows} onChange={(v) => setQuery({ view: v === 'lines' ? 'lines' : 'dense', each: v === 'each' ? '1' : '' })} />
      <Choice label="Resource" value={resource} options={resources.map((r) => [r, resourceName(r)])} onChange={pick('r')} />
      <Choice label="Order" value={order} options={Object.entries(orders).map(([k, [text]]) => [k, text])} onChange={pick('sort')} />
      {useLineHeight() === 36 ? more : <details class="more" open={['pool', 'policy', 'namespace', 'guarantee', 'status'].some((k) => query.get(k))}><summary>Narrow down</summary>{more}</details>}
      <p class="count" role="status">{filtered ? `${shown.toLocaleString('en')} of ${plural(all.length, 'node')}` : plural(all.length, 'node')}</p>
    </div>
  )
}

// Heatmap draws only the lines that are visible, so that it works for any number of nodes.
function Heatmap({ rows, resource }) {
  const box = useRef(null)
  const rowHigh = useLineHeight()
  const [view, setView] = useState({ from: 0, count: 30 })
  const [at, setAt] = useState(-1) // -1 until the user chooses a line
  const measure = () => {
    const el = box.current
    if (!el) return
    const top = Math.max(0, -el.getBoundingClientRect().top)
    setView({ from: Math.max(0, Math.floor(top / rowHigh) - 10), count: Math.ceil(innerHeight / rowHigh) + 20 })
  }
  useLayoutEffect(measure, [rows.length, rowHigh])
  useEffect(() => {
    addEventListener('scroll', measure, { passive: true })
    addEventListener('resize', measure)
    return () => {
      removeEventListener('scroll', measure)
      removeEventListener('resize', measure)
    }
  }, [rowHigh])
  const here = Math.min(at, rows.length - 1)
  const go = (to) => {
    const next = Math.max(0, Math.min(rows.length - 1, to))
    setAt(next)
    const y = box.current.getBoundingClientRect().top + next * rowHigh
    if (y < 120) scrollBy(0, y - 120)
    else if (y + rowHigh > innerHeight) scrollBy(0, y + rowHigh - innerHeight + 8)
  }
  const key = (e) => {
    const page = Math.floor(innerHeight / rowHigh) - 4
    const to = { ArrowDown: here + 1, j: here + 1, ArrowUp: here - 1, k: here - 1, PageDown: here + page, PageUp: here - page, Home: 0, End: rows.length - 1 }[e.key]
    if (to !== undefined) {
      e.preventDefault()
      go(to)
    } else if (e.key === 'Enter' && rows[here]) location.hash = link('nodes', rows[here].name)
  }
  useLayoutEffect(() => { // keys act on the list if nothing has the focus; a layout effect, to be ready for the next key
    const anywhere = (e) => {
      if (e.target !== document.body || e.ctrlKey || e.metaKey || e.altKey) return
      if (['ArrowDown', 'ArrowUp', 'j', 'k', 'Enter'].includes(e.key)) key(e)
    }
    addEventListener('keydown', anywhere)
    return () => removeEventListener('keydown', anywhere)
  })
  if (!rows.length) return <p class="waiting">No node matches.</p>
  const visible = rows.slice(view.from, view.from + view.count)
  const widest = rows.reduce((most, r) => Math.max(most, r.numaNodes?.length || 0), 1)
  return (
    <div class="heat" role="grid" tabIndex={0} aria-label={`Nodes by NUMA node: ${resourceName(resource)} free of all`} aria-rowcount={rows.length + 1} aria-activedescendant={rows[here] && 'row-' + here} onKeyDown={key} onFocus={() => setAt((was) => Math.max(was, 0))}>
      <div role="rowgroup">
        <div class="line head" role="row" aria-rowindex={1}>
          <span role="columnheader">Node</span>
          <span role="columnheader">State</span>
          <span role="columnheader" class="wide">Policy</span>
          <span role="columnheader" class="num">Pods</span>
          <span role="columnheader" class="cells-head">
            <span>{resourceName(resource)}: free of all, NUMA node by NUMA node</span>
            <Scale />
          </span>
        </div>
      </div>
      <div role="rowgroup" ref={box} style={{ height: rows.length * rowHigh + 'px', position: 'relative' }}>
        {visible.map((row, i) => (
          <Line key={row.name} row={row} index={view.from + i} high={rowHigh} here={view.from + i === here} resource={resource} widest={widest} pick={() => setAt(view.from + i)} />
        ))}
      </div>
    </div>
  )
}

function Line({ row, index, high, here, resource, widest, pick }) {
  const open = (e) => {
    if (!e.target.closest('a') && getSelection().isCollapsed) location.hash = link('nodes', row.name)
  }
  return (
    <div class={'line ' + status(row).level + (here ? ' here' : '')} role="row" id={'row-' + index} aria-rowindex={index + 2} aria-selected={here} style={{ top: index * high + 'px' }} onMouseDown={pick} onClick={open}>
      <Columns row={row} resource={resource} widest={widest} grid />
    </div>
  )
}
