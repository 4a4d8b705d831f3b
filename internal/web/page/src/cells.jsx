// The columns of a node in a line: its name and state, and a cell for each NUMA node.
import { link } from './route.js'
import { Status } from './parts.jsx'
import { amount, amountOf } from './words.js'

// If a node of the list has more NUMA nodes than this, cells are small.
const many = 8
// Up to this many NUMA nodes, cells have room for total amounts next to devices.
const some = 4

// heat returns the CSS class of the shade for the taken part of an amount.
export const heat = (a) => 'h' + (a.total ? Math.min(5, Math.floor((1 - a.free / a.total) * 5.001)) : 0)

// Columns has the columns of a line. In a grid, they have ARIA roles.
export function Columns({ row, resource, widest, grid, more }) {
  const role = (name) => (grid ? name : undefined)
  return (
    <>
      <span role={role('rowheader')} class="name"><a href={link('nodes', row.name)} tabIndex={grid ? -1 : undefined}>{row.name}</a>{more}</span>
      <span role={role('gridcell')} class="state"><Status row={row} /></span>
      <span role={role('gridcell')} class="wide muted">{row.policy ? `${row.policy}/${row.scope}` : '–'}</span>
      <span role={role('gridcell')} class="num">{row.pods}{row.inFlight > 0 && <b title="bound, in no report yet">+{row.inFlight}</b>}</span>
      <span role={role('gridcell')} class={'cells' + (widest > many ? ' many' : row.numaNodes?.length > some ? ' tight' : '')}>
        {(row.numaNodes || []).map((n, i) => <Cell key={n.anywhere ? 'any' : n.numa} numa={n} resource={resource} small={widest > many} tight={row.numaNodes.length > some} apart={i > 0 && row.packages && row.packages[i] !== row.packages[i - 1]} />)}
      </span>
    </>
  )
}

// Scale shows what the shades mean.
export const Scale = () => (
  <span class="scale" aria-hidden="true">free<i class="h0" /><i class="h1" /><i class="h2" /><i class="h3" /><i class="h4" /><i class="h5" />taken</span>
)

function Cell({ numa, resource, small, tight, apart }) {
  const a = amountOf(numa, resource)
  const devices = resource === 'cpu' ? [...(numa.devices || [])].sort((a, b) => b.resource.includes('gpu') - a.resource.includes('gpu')) : []
  const beside = small ? [] : devices.slice(0, 2) // the cell hides devices that do not fit
  const gap = apart ? ' apart' : ''
  const name = numa.anywhere ? 'on no NUMA node' : 'NUMA node ' + numa.numa
  if (!a?.total) return numa.anywhere ? null : <span class={'cell none' + gap} title={name + ': none'}><i aria-hidden="true">{numa.numa}</i>–</span>
  return (
    <span class={'cell ' + heat(a) + gap} title={`${name}: ${amount(resource, a.free)} of ${amount(resource, a.total)} free${devices.map((d) => `, ${d.free} of ${d.total} ${d.resource}`).join('')}`}>
      {!numa.anywhere && <i aria-hidden="true">{numa.numa}</i>}<span>{amount(resource, a.free)}{!small && !(tight && beside.length) && <small>/{amount(resource, a.total)}</small>}</span>
      {beside.map((d) => <span class="dev" key={d.resource}>{d.free}{!tight && '/' + d.total} {d.resource.split('/').pop()}</span>)}
    </span>
  )
}
