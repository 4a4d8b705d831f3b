// Small components that several views use.
import { link } from './route.js'
import { amount, cpuList, plural, status } from './words.js'

// Status shows a node's state by a shape too, not only by a colour.
export function Status({ row }) {
  const s = status(row)
  return (
    <span class={'status ' + s.level}>
      <svg viewBox="0 0 12 12" width="11" height="11" aria-hidden="true">
        {s.level === 'good' && <circle cx="6" cy="6" r="5" />}
        {s.level === 'doubt' && <path d="M6 .6 11.6 11H.4z" />}
        {s.level === 'bad' && <path d="M1 1h10v10H1z" />}
      </svg>
      <span>{s.word}</span>
    </span>
  )
}

export function Notice({ kind = 'bad', title, children }) {
  return (
    <div class={'notice ' + kind} role={kind === 'bad' ? 'alert' : 'note'}>
      <strong>{title}</strong>
      {children}
    </div>
  )
}

export const PodLink = ({ p }) => <a href={link('pods', p.namespace, p.name)}><bdi>{p.namespace}/{p.name}</bdi></a>
export const NodeLink = ({ name }) => (name ? <a href={link('nodes', name)}>{name}</a> : '–')

// WhatIf links to the page fit, with the question where a copy of the pod would go.
export const WhatIf = ({ namespace, name }) => <a class="ask" href={`${link('fit')}?pod=${encodeURIComponent(`${namespace}/${name}`)}`}>What if? Ask with its YAML</a>

// containerName and shares return the cells of a container in tables: its name, and its CPUs,
// memory and devices.
export const containerName = (c) => c.name + (c.kind === 'app' ? '' : ` (${c.kind})`)
export const shares = (c) => [
  cpuList(c.cpus) || (c.unknownCPUs ? `${c.unknownCPUs} pinned, CPUs unknown` : 'shared'),
  (c.memory || []).map((m) => `${amount(m.resource, m.bytes)}${m.resource === 'memory' ? '' : ' ' + m.resource} on ${m.numaNodes}`).join(', ') || '–',
  Object.entries(c.devices || {}).map(([r, ids]) => `${r} ${ids.join(',')}`).join('; ') || '–',
]

// On a narrow screen, each row of a Table becomes a card, in which every cell has a label.
export function Table({ label, columns, rows }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table class="stack">
        <thead><tr>{columns.map(([name, kind]) => <th key={name} class={kind}>{name}</th>)}</tr></thead>
        <tbody>
          {rows.map((cells, i) => <tr key={i}>{cells.map((cell, j) => <td key={j} class={columns[j][1]} data-label={columns[j][0]} data-none={cell === '–' || cell === '' || undefined}>{cell}</td>)}</tr>)}
        </tbody>
      </table>
    </div>
  )
}

// Claims shows which devices each ResourceClaim of a pod has, or could have, and why not.
export function Claims({ claims }) {
  return (claims || []).map((c) => (
    <section key={c.name}>
      <h2>Claim <bdi>{c.name}</bdi> <small class="muted">{[c.claim || c.template, c.asks && `berth.dev/claims: ${c.asks}`].filter(Boolean).join(' · ')}</small></h2>
      {c.message && <Notice kind="note" title="">{c.message}</Notice>}
      {c.nodes?.length > 0 && (
        <Table label={`Devices for claim ${c.name}`} columns={[['Node'], ['NUMA'], ['Near'], ['Free'], ['Taken'], ['Why']]} rows={c.nodes.flatMap((n) => [
          [<a href={link('nodes', n.node)}>{n.node}</a>, '–', n.near ? 'yes' : 'no', '–', '–', n.message],
          ...(n.numaNodes || []).map((d) => ['', d.numaNode, d.near ? 'yes' : 'no', names(d.free, d.freeCount), names(d.taken, d.takenCount), d.why || '–']),
        ])} />
      )}
      {c.more > 0 && <p class="muted">and {c.more} more nodes</p>}
    </section>
  ))
}

// names returns the first names of a list. count is the number of all names, which may be larger
// than the list.
export function names(list, count) {
  if (!count) return '–'
  const shown = (list || []).slice(0, 4)
  return shown.join(', ') + (count > shown.length ? ` and ${count - shown.length} more` : '')
}

export function Waiting({ what }) {
  return <p class="waiting" role="status">{what}</p>
}

// Spark draws the course of a number over the last hours. The vertical axis begins at zero.
export function Spark({ values, label }) {
  const w = 96
  const h = 26
  if (values.length < 2) return <svg class="spark" width={w} height={h} aria-hidden="true" />
  const top = Math.max(1, ...values)
  const at = (v, i) => `${((i / (values.length - 1)) * w).toFixed(1)} ${(h - 2 - (v / top) * (h - 4)).toFixed(1)}`
  const line = values.map(at).join('L')
  return (
    <svg class="spark" width={w} height={h} viewBox={`0 0 ${w} ${h}`} role="img" aria-label={label}>
      <path class="area" d={`M0 ${h}L${line}L${w} ${h}Z`} />
      <path class="trace" d={'M' + line} />
    </svg>
  )
}

export function Choice({ label, value, options, onChange }) {
  return (
    <label class="choice">
      <span>{label}</span>
      <select value={value} onChange={(e) => onChange(e.currentTarget.value)}>
        {options.map(([v, text]) => <option key={v} value={v}>{text}</option>)}
      </select>
    </label>
  )
}

// The verbs for the answer of a group of nodes: for one node, and for several.
const verbs = {
  admits: ['would take it', 'would take it'], waits: ['waits for its next report', 'wait for their next report'], refuses: ['refuses it', 'refuse it'],
  unreliable: ['is not relied on', 'are not relied on'], excluded: ['is excluded', 'are excluded'],
}

export function Groups({ title, groups, held }) {
  return (
    <section>
      <h2>{title}</h2>
      <GroupList groups={groups} held={held} />
    </section>
  )
}

export function GroupList({ groups, held }) {
  return <ul class="groups">{groups.map((g) => <Group key={g.answer + g.message + g.advice} g={g} count={g.count ?? g.nodes.length} held={held} />)}</ul>
}

// HeldBack shows what keeps a pod from nodes that would admit it.
export const HeldBack = ({ h }) => <Notice title={`Held back by ${h.by}: `}>{h.message}{h.advice && <span class="advice"><b>Do:</b> {h.advice}</span>}</Notice>

function Group({ g, count, held }) {
  const named = g.nodes.slice(0, 12)
  const blocked = held && g.answer === 'admits'
  return (
    <li class={blocked ? 'excluded' : g.answer}>
      <strong>{plural(count, 'node')} {blocked ? 'would take it if it were not held back' : verbs[g.answer][count === 1 ? 0 : 1]}</strong>
      <span>{g.message}</span>
      {g.advice && <span class="advice"><b>Do:</b> {g.advice}</span>}
      <span class="names">
        {named.map((n) => <a key={n} href={link('nodes', n)}>{n}</a>)}
        {count > named.length && <em>and {count - named.length} more</em>}
      </span>
    </li>
  )
}

// Refusals shows for each resource the requested amount, and the amounts on every NUMA node.
export function Refusals({ answers }) {
  const refusing = answers.filter((n) => n.refusal?.needs?.length)
  if (!refusing.length) return null
  return (
    <section>
      <h2>NUMA node by NUMA node</h2>
      <div class="refusals">{refusing.slice(0, 12).map((n) => <Refusal key={n.node} answer={n} />)}</div>
    </section>
  )
}

function Refusal({ answer }) {
  const r = answer.refusal
  const ids = [...new Set(r.needs.flatMap((n) => (n.nodes || []).map((x) => x.numa)))].sort((a, b) => a - b)
  return (
    <div class={'refusal scroll' + (ids.length > 3 ? ' broad' : '')} tabIndex={0} role="region" aria-label={'Why ' + answer.node + ' refuses'}>
      <h3><a href={link('nodes', answer.node)}>{answer.node}</a></h3>
      <p class="muted">{r.rule}{r.scarcity && (r.scarcity === 'unresolvable' ? ', removing pods does not help' : ', removing pods can help')} · {r.policy}{r.scope && ', scope ' + r.scope}{r.container && `, container ${r.container}`}</p>
      <table class="needs">
        <thead><tr><th>Resource</th><th class="num">Asked</th>{ids.map((i) => <th class="num" key={i}>NUMA {i}</th>)}</tr></thead>
        <tbody>
          {r.needs.map((n) => (
            <tr key={n.resource}>
              <td>{n.resource}</td>
              <td class="num">{amount(n.resource, n.asked)}</td>
              {ids.map((i) => {
                const a = (n.nodes || []).find((x) => x.numa === i)
                if (!a) return <td key={i} class="num">–</td>
                const enough = a.free >= n.asked
                return <td key={i} class={'num ' + (enough ? 'enough' : 'short')} title={enough ? 'enough' : 'too little'}><span aria-hidden="true">{enough ? '✓' : '✗'} </span>{amount(n.resource, a.free)}<small>/{amount(n.resource, a.total)}</small></td>
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
