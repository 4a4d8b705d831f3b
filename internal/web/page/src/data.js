// The data from the server, which all views share: the rows of the cluster, and a number that grows
// with every change.
import { useEffect, useState } from 'preact/hooks'

const pause = (ms) => new Promise((done) => setTimeout(done, ms))

export const store = {
  cluster: null,
  rows: new Map(),
  number: 0,
  ready: false,
  alive: false,
  problem: '',
  needsToken: false,
  notes: [],
  // lost describes the watches that currently fail: {resources, since, why}. null if none fails.
  lost: null,
  // now is the cluster's time in seconds. The page received it at heard, in milliseconds of the
  // page's own clock.
  now: 0,
  heard: 0,
}

// clusterNow returns the cluster's present time, in seconds.
export const clusterNow = () => store.now + (performance.now() - store.heard) / 1000

const listeners = new Set()
const tell = () => listeners.forEach((f) => f())

// useStore returns the store, and draws the view again after each change.
export function useStore() {
  const [, again] = useState(0)
  useEffect(() => {
    const f = () => again((n) => n + 1)
    listeners.add(f)
    return () => listeners.delete(f)
  }, [])
  return store
}

const tokenKey = 'berth-token'
export function setToken(text) {
  if (text) sessionStorage.setItem(tokenKey, text)
  else sessionStorage.removeItem(tokenKey)
  store.needsToken = false
  location.reload()
}

function headers() {
  const token = sessionStorage.getItem(tokenKey)
  return token ? { Authorization: 'Bearer ' + token } : {}
}

// ask reads JSON from the server. Its error has the server's message.
export async function ask(path, options = {}) {
  let answer
  try {
    answer = await fetch(path, { ...options, headers: { ...headers(), ...options.headers } })
  } catch {
    throw new Error('The server does not answer. Is berth serve still running?')
  }
  if (answer.status === 401) {
    store.needsToken = true
    tell()
  }
  const data = await answer.json().catch(() => ({ error: answer.statusText }))
  if (!answer.ok) throw new Error(data.error || answer.statusText)
  return data
}

// useAsk reads JSON from the server, and reads it again after a change of the cluster, at most once
// a second.
export function useAsk(path) {
  const { number } = useStore()
  const [got, set] = useState({ path: '', data: null, error: '' })
  useEffect(() => {
    let current = true
    const late = got.path === path && got.data ? 1000 : 0
    const timer = setTimeout(async () => {
      try {
        const data = await ask(path)
        if (current) set({ path, data, error: '' })
      } catch (e) {
        if (current) set({ path, data: null, error: e.message })
      }
    }, late)
    return () => {
      current = false
      clearTimeout(timer)
    }
  }, [path, number])
  return got.path === path ? got : { data: null, error: '' }
}

async function readRows() {
  const change = await ask('api/rows?since=' + store.number)
  if (change.anew) store.rows = new Map()
  for (const name of change.gone || []) store.rows.delete(name)
  for (const row of change.rows) store.rows.set(row.name, row)
  store.number = change.number
  store.ready = change.ready
  store.notes = change.notes || []
  store.lost = change.lost
  store.now = change.now
  store.heard = performance.now()
}

// follow keeps the store up to date while the page is open. An event has only the number of the
// last change; the changes themselves are then requested.
export async function follow() {
  for (;;) {
    try {
      const rows = readRows()
      rows.catch(() => {}) // awaited below
      store.cluster = await ask('api/cluster')
      await rows
      store.problem = ''
      tell()
      await stream()
    } catch (e) {
      store.problem = e.message
    }
    store.alive = false
    tell()
    if (store.needsToken) return
    await pause(2000)
  }
}

async function stream() {
  const answer = await fetch('api/events', { headers: headers() })
  if (!answer.ok) throw new Error(await answer.text())
  store.alive = true
  tell()
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  let wanted = 0
  let reading = false
  const read = async () => {
    if (reading) return
    reading = true
    try {
      while (store.number < wanted || !store.ready) {
        await readRows()
        tell()
        await pause(300)
      }
    } catch (e) {
      store.problem = e.message
      tell()
    } finally {
      reading = false
    }
  }
  for (;;) {
    const { value, done } = await reader.read()
    if (done) return
    text += value
    const events = text.split('\n\n')
    text = events.pop()
    for (const event of events) {
      const line = event.split('\n').find((l) => l.startsWith('data: '))
      if (line) wanted = Number(line.slice(6))
    }
    read()
  }
}
