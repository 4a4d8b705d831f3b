// The cluster at a glance, by pool: each node is a figure with a bar for each NUMA node. Nodes that
// look the same share a figure with a number. A pool is drawn with a few SVG paths, however many
// nodes it has.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import { Columns, Scale, heat } from './cells.jsx'
import { link, setQuery } from './route.js'
import { amount, amountOf, collator, plural, resourceName, status } from './words.js'

// With at least denseFrom nodes, this view is the default.
export const denseFrom = 60

// Sizes of figures in pixels, the largest first. apart is the gap between packages, gap the gap
// between other bars.
const sizes = [
  { bar: 13, high: 38, gap: 2, apart: 6, room: 16, line: 12 },
  { bar: 9, high: 28, gap: 1, apart: 4, room: 12, line: 10 },
  { bar: 6, high: 18, gap: 1, apart: 3, room: 8, line: 7 },
]
// digit is the width of a digit. around is the height of a pool without its figures. least is the
// minimum height of a pool.
const digit = 7
const around = 19
const least = 74

// poolsOf groups nodes by pool and by machine. In each group, nodes that look the same share a
// figure.
export function poolsOf(rows, resource, folded) {
  const pools = new Map()
  for (const row of rows) {
    const shape = shapeOf(row)
    const key = `${row.pool || ''} ${shape.key}`
    let p = pools.get(key)
    if (!p) pools.set(key, (p = { key, name: row.pool || '', shape, nodes: 0, free: 0, total: 0, bad: 0, by: new Map(), figures: [] }))
    add(p, row, resource, folded)
  }
  return joined([...pools.values()]).sort((a, b) => collator.compare(a.name, b.name) || collator.compare(a.shape.text, b.shape.text))
}

// lacks reports whether the machines are known and have none of the resource.
const lacks = (p) => p.shape.key && !p.total

// joined adds nodes with unknown machines to another group of their pool, if there is one.
function joined(pools) {
  const known = pools.filter((p) => p.shape.key)
  for (const lost of pools.filter((p) => !p.shape.key)) {
    const into = known.find((p) => p.name === lost.name)
    if (!into) {
      known.push(lost)
      continue
    }
    into.nodes += lost.nodes
    into.bad += lost.bad
    into.figures.push(...lost.figures)
  }
  return known
}

function add(p, row, resource, folded) {
  const bars = (row.numaNodes || []).filter((n) => !n.anywhere || amountOf(n, resource)?.total).map((n) => amountOf(n, resource) || { free: 0, total: 0 })
  const { word, level } = status(row)
  const look = folded(row) ? `${word} ${bars.map((a) => `${a.free}/${a.total}`)}` : row.name
  p.nodes++
  p.bad += level === 'bad' ? 1 : 0
  for (const a of bars) {
    p.free += a.free
    p.total += a.total
  }
  let f = p.by.get(look)
  if (!f) {
    p.by.set(look, (f = { key: p.key + look, rows: [], bars, level, packages: row.packages }))
    p.figures.push(f)
  }
  f.rows.push(row)
}

// shapeOf describes a machine by the data in its row. The key is "" if the machine is unknown.
function shapeOf(row) {
  const numa = (row.numaNodes || []).filter((n) => !n.anywhere)
  const sums = new Map()
  for (const n of row.numaNodes || []) {
    for (const a of [n.cpus && { ...n.cpus, resource: 'cpu' }, ...(n.devices || [])]) if (a?.total) sums.set(a.resource, (sums.get(a.resource) || 0) + a.total)
  }
  if (!numa.length) return { key: '', text: 'nothing is known of them', title: '' }
  const words = (name) => [plural(numa.length, 'NUMA node'), ...[...sums].map(([r, n]) => (r === 'cpu' ? plural(n, 'CPU') : `${n} ${name(r)}`))].join(', ')
  const title = words((r) => r)
  return { key: `${title} ${numa.map((n) => n.numa)} ${row.packages}`, text: words((r) => r.split('/').at(-1)), title }
}

// placed returns the width of a pool's figures, and how they are arranged in rows.
function placed(p, size, width) {
  let wide = 0
  for (const f of p.figures) wide = Math.max(wide, figureWidth(f, size))
  const most = p.figures.reduce((n, f) => Math.max(n, f.rows.length), 1)
  const slot = wide + (most > 1 ? 4 + digit * (String(most).length + 1) : 0) + size.room
  const columns = Math.max(1, Math.floor((width + size.room) / slot))
  return { wide, slot, columns, lines: Math.ceil(p.figures.length / columns), row: size.high + size.line }
}

// largest arranges all pools with the largest figures that fit on the screen. If even the smallest
// do not fit, it allows larger figures that make the page at most 15 percent higher.
function largest(pools, width) {
  const all = sizes.map((size) => {
    const where = pools.map((p) => placed(p, size, width))
    return { size, where, high: where.reduce((sum, at) => sum + Math.max(least, at.lines * at.row + around), 0) }
  })
  return all.find((one) => one.high <= Math.max(innerHeight - 300, all.at(-1).high * 1.15))
}

// lefts returns the x positions of the bars of a figure.
function lefts(f, size) {
  let x = 0
  return f.bars.map((_, i) => {
    if (i) x += size.bar + (f.packages && f.packages[i] !== f.packages[i - 1] ? size.apart : size.gap)
    return x
  })
}
const figureWidth = (f, size) => (f.bars.length ? lefts(f, size).at(-1) : 0) + size.bar

const box = (x, y, w, h) => `M${x} ${y}h${w}v${h}h${-w}z`

// pathsOf draws all figures of a pool, with one path for each shade and each kind of frame.
function pathsOf(p, size, at) {
  const paths = {}
  const draw = (name, d) => (paths[name] = (paths[name] || '') + d)
  const counts = []
  p.figures.forEach((f, i) => {
    const x0 = (i % at.columns) * at.slot
    const y0 = Math.floor(i / at.columns) * at.row
    lefts(f, size).forEach((x, b) => {
      const a = f.bars[b]
      if (!a.total) return draw('lacks', box(x0 + x, y0 + size.high - 2, size.bar, 2))
      draw('frame', box(x0 + x, y0, size.bar, size.high))
      if (a.free === a.total) return
      const high = Math.min(size.high - (a.free ? 2 : 0), Math.max(2, Math.round((1 - a.free / a.total) * size.high)))
      draw(heat(a), box(x0 + x, y0 + size.high - high, size.bar, high))
    })
    const w = figureWidth(f, size)
    if (f.level !== 'good') draw(f.level, box(x0 - 2.5, y0 - 2.5, w + 5, size.high + 5))
    if (!f.bars.length) draw('unknown', `M${x0} ${y0}l${size.bar} ${size.high}m0 ${-size.high}l${-size.bar} ${size.high}`)
    if (f.rows.length > 1) counts.push({ x: x0 + w + 5, y: y0 + size.high - 1, n: f.rows.length })
  })
  return { paths, counts }
}

function useWidth(ref) {
  const [width, set] = useState(0)
  useLayoutEffect(() => {
    const watch = new ResizeObserver(() => set(ref.current?.clientWidth || 0))
    set(ref.current.clientWidth)
    watch.observe(ref.current)
    return () => watch.disconnect()
  }, [])
  return width
}

// beside matches if a pool's name is next to its figures, as in app.css.
const beside = matchMedia('(min-width: 951px)')

const keys = ['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown', 'Enter']

export function Dense({ rows, resource, fold }) {
  const frame = useRef(null)
  const width = useWidth(frame)
  const [unfolded, unfold] = useState(new Set()) // names of the nodes that the user has unfolded
  const [at, setAt] = useState(null) // pool and figure; null until the user chooses one
  const all = useMemo(() => poolsOf(rows, resource, (row) => fold && !unfolded.has(row.name)), [rows, resource, fold, unfolded])
  const [pools, without] = useMemo(() => [all.filter((p) => !lacks(p)), all.filter(lacks)], [all])
  const inner = Math.max(60, width - (beside.matches ? 266 : 0) - 32)
  const { size, where } = useMemo(() => largest(pools, inner), [pools, inner])
  const p = at && Math.min(at.pool, pools.length - 1)
  const i = at && pools[p] && Math.min(at.figure, pools[p].figures.length - 1)
  const chosen = at && pools[p]?.figures[i]
  const go = (pool, figure) => {
    const to = Math.max(0, Math.min(pools.length - 1, pool))
    setAt({ pool: to, figure: Math.max(0, Math.min(pools[to].figures.length - 1, figure)) })
    const list = frame.current.querySelectorAll('.figures')[to]
    const y = list.getBoundingClientRect().top + Math.floor(figure / where[to].columns) * where[to].row
    if (y < 150) scrollBy(0, y - 150)
    else if (y + where[to].row > innerHeight - 8) scrollBy(0, y + where[to].row - innerHeight + 8)
  }
  const open = (f) => {
    if (f.rows.length === 1) location.hash = link('nodes', f.rows[0].name)
    else unfold(new Set([...unfolded, ...f.rows.map((r) => r.name)]))
  }
  const key = (e) => {
    if (!keys.includes(e.key) || e.ctrlKey || e.metaKey || e.altKey || !pools.length) return
    e.preventDefault()
    if (e.key === 'Enter') return chosen && open(chosen)
    if (!chosen) return go(0, 0)
    go(...next(e.key, pools, where, p, i))
  }
  useLayoutEffect(() => { // keys act on the figures if nothing has the focus
    const anywhere = (e) => e.target === document.body && key(e)
    addEventListener('keydown', anywhere)
    return () => removeEventListener('keydown', anywhere)
  })
  return (
    <div class="dense" ref={frame}>
      <Chosen f={chosen} resource={resource} alone={chosen && unfolded.has(chosen.rows[0].name)} unfold={() => open(chosen)} fold={() => unfold(new Set())} />
      {!rows.length && <p class="waiting">No node matches.</p>}
      {width > 0 && rows.length > 0 && <div class="pools">{pools.map((one, n) => (
        <Pool key={one.key} p={one} id={'figure-' + n} size={size} at={where[n]} resource={resource} chosen={n === p ? i : -1} pick={(figure) => setAt({ pool: n, figure })} open={open} onKey={key} />
      ))}
        {without.length > 0 && <p class="without">No {resourceName(resource)}: {without.map((one) => <span key={one.key} title={one.shape.title}><PoolName p={one} /> {plural(one.nodes, 'node')}</span>)}</p>}
      </div>}
    </div>
  )
}

// next returns the pool and the figure to which a key moves.
function next(key, pools, where, p, i) {
  const { columns } = where[p]
  const last = pools[p].figures.length - 1
  const line = Math.floor(i / columns)
  if (key === 'ArrowLeft') return i > 0 || !p ? [p, i - 1] : [p - 1, Infinity]
  if (key === 'ArrowRight') return i < last || p === pools.length - 1 ? [p, i + 1] : [p + 1, 0]
  if (key === 'ArrowUp') {
    if (line) return [p, i - columns]
    return p ? [p - 1, Math.min(pools[p - 1].figures.length - 1, (where[p - 1].lines - 1) * where[p - 1].columns + Math.min(i, where[p - 1].columns - 1))] : [p, i]
  }
  if (line < where[p].lines - 1) return [p, Math.min(i + columns, last)]
  return p < pools.length - 1 ? [p + 1, Math.min(i % columns, where[p + 1].columns - 1)] : [p, i]
}

// Chosen shows the line of the chosen figure.
function Chosen({ f, resource, alone, unfold, fold }) {
  const row = f?.rows[0]
  return (
    <div class="heat chosen" role="status">
      {row ? (
        <div class={'line ' + f.level}>
          <Columns row={row} resource={resource} widest={row.numaNodes?.length || 0} more={f.rows.length > 1 ? <button type="button" onClick={unfold}>and {f.rows.length - 1} more</button> : alone && <button type="button" onClick={fold}>fold</button>} />
        </div>
      ) : (
        <p class="line hint"><span>A figure is a node, a bar a NUMA node: {resourceName(resource)}, filled as far as they are taken. A number says how many nodes look the same.</span><Scale /></p>
      )}
    </div>
  )
}

// PoolName is a button that filters the page by the pool. Nodes without a pool are described by
// their machines.
const PoolName = ({ p }) => (p.name ? <button type="button" class="plain" onClick={() => setQuery({ pool: p.name })}>{p.name}</button> : p.shape.text)

function Pool({ p, id, size, at, resource, chosen, pick, open, onKey }) {
  const high = at.lines * at.row - size.line
  const drawing = useMemo(() => {
    const { paths, counts } = pathsOf(p, size, at)
    return (
      <svg width={at.columns * at.slot} height={high + 3} aria-hidden="true">
        {Object.entries(paths).map(([name, d]) => <path key={name} class={name} d={d} />)}
        {counts.map((c) => <text key={c.x + ' ' + c.y} x={c.x} y={c.y}>×{c.n}</text>)}
      </svg>
    )
  }, [p, size, at.columns, at.slot])
  const under = (e) => {
    const r = e.currentTarget.getBoundingClientRect()
    const column = Math.floor((e.clientX - r.left) / at.slot)
    const i = Math.floor((e.clientY - r.top) / at.row) * at.columns + column
    return column < at.columns && i >= 0 ? p.figures[i] && i : undefined
  }
  const point = (e) => {
    const i = under(e)
    if (i !== undefined && i !== chosen) pick(i)
  }
  const click = (e) => {
    if (e.ctrlKey || e.metaKey || e.shiftKey) return
    const i = under(e)
    if (i === undefined) return
    e.preventDefault()
    pick(i)
    open(p.figures[i])
  }
  const i = Math.max(0, chosen)
  const f = p.figures[i]
  return (
    <section class="pool">
      <header>
        <h2 title={p.shape.title}><PoolName p={p} /></h2>
        <span class="num">{plural(p.nodes, 'node')}</span>
        {p.name && <p title={p.shape.title}>{p.shape.text}</p>}
        <p>{p.total > 0 && `${amount(resource, p.free)} of ${amount(resource, p.total)} free`}{p.total > 0 && p.bad > 0 && ' · '}{p.bad > 0 && <b class="bad">{p.bad.toLocaleString('en')} in trouble</b>}</p>
      </header>
      <div class="figures" role="listbox" tabIndex={0} aria-label={`Nodes of ${p.name || p.shape.text}`} aria-activedescendant={chosen >= 0 ? id : undefined} onPointerMove={point} onClick={click} onKeyDown={onKey} onFocus={() => chosen < 0 && pick(0)}>
        {drawing}
        <a
          id={id} role="option" tabIndex={-1} aria-selected={chosen >= 0} aria-posinset={i + 1} aria-setsize={p.figures.length} class={chosen >= 0 ? 'at' : 'hidden'} href={link('nodes', f.rows[0].name)}
          aria-label={spoken(f, resource)} style={{ left: (i % at.columns) * at.slot - 4 + 'px', top: Math.floor(i / at.columns) * at.row - 4 + 'px', width: at.wide + 8 + 'px', height: size.high + 8 + 'px' }}
        />
      </div>
    </section>
  )
}

function spoken(f, resource) {
  const [row] = f.rows
  const cells = (row.numaNodes || []).filter((n) => !n.anywhere).map((n) => {
    const a = amountOf(n, resource)
    return a?.total ? `NUMA node ${n.numa}: ${amount(resource, a.free)} of ${amount(resource, a.total)} free` : `NUMA node ${n.numa}: none`
  })
  return [row.name + (f.rows.length > 1 ? ` and ${f.rows.length - 1} nodes like it` : ''), status(row).word, ...cells].join(', ')
}
