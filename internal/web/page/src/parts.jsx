// Small things that several views are made of.
import { status } from './words.js'

// Status has a shape beside its colour.
export function Status({ row }) {
  const s = status(row)
  return (
    <span class={'status ' + s.level}>
      <svg viewBox="0 0 12 12" width="11" height="11" aria-hidden="true">
        {s.level === 'good' && <circle cx="6" cy="6" r="5" />}
        {s.level === 'doubt' && <path d="M6 .6 11.6 11H.4z" />}
        {s.level === 'bad' && <path d="M1 1h10v10H1z" />}
      </svg>
      {s.word}
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

export function Waiting({ what }) {
  return <p class="waiting" role="status">{what}</p>
}

// Spark is how a number went in the last hours: a line that begins at zero.
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
