// Every view has an address in the URL after #, so that the page works below any path of a proxy.
import { useLayoutEffect, useState } from 'preact/hooks'

function parse() {
  const [path, query] = location.hash.replace(/^#/, '').split('?')
  const parts = path.split('/').filter(Boolean).map((p) => {
    try {
      return decodeURIComponent(p)
    } catch {
      return p
    }
  })
  return { parts, query: new URLSearchParams(query || '') }
}

export function useRoute() {
  const [route, set] = useState(parse)
  useLayoutEffect(() => { // a layout effect, to be ready for the next key
    const f = () => set(parse())
    addEventListener('hashchange', f)
    return () => removeEventListener('hashchange', f)
  }, [])
  return route
}

export const link = (...parts) => '#/' + parts.map(encodeURIComponent).join('/')

// setQuery changes the address of the view without leaving it.
export function setQuery(change) {
  const { parts, query } = parse()
  for (const [key, value] of Object.entries(change)) {
    if (value) query.set(key, value)
    else query.delete(key)
  }
  const text = query.toString()
  history.replaceState(null, '', link(...parts) + (text ? '?' + text : ''))
  dispatchEvent(new HashChangeEvent('hashchange'))
}
