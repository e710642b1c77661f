// A session as the page has it: a window on its stream, and what can be done in it.
import { Access, whoAmI } from "./access"
import { Actions } from "./actions"
import { follow, insist, isStatus } from "./follow"
import type { Batch, Connection } from "./follow"
import { readNotes } from "./notes"
import { pagesOf, positionOf } from "./pages"
import { Store } from "./store"
import { Window } from "./window"

export interface Session {
  id: string
  window: Window
  actions: Actions
  /** How the stream is being read. */
  connection: Store<Connection>
  close(): void
}

/** Opens the session of this name, and makes it if it does not exist. */
export function openSession(id: string): Session {
  const sessionUrl = new URL(`/v1/sessions/${encodeURIComponent(id)}`, location.href).href
  const streamUrl = new URL(`/v1/stream/main/sessions/${encodeURIComponent(id)}`, location.href)
    .href
  const me = whoAmI()
  const access = new Access(sessionUrl, me)
  const actions = new Actions(sessionUrl, access)
  const connection = new Store<Connection>("connecting")
  const closed = new AbortController()
  let reopen: (() => void) | undefined
  const isTrimmed = (error: unknown) => {
    if (!isStatus(error, 410)) return false
    reopen?.()
    return true
  }
  const window = new Window(pagesOf(streamUrl, access), me, isTrimmed)
  actions.outbox.subscribe(() => window.send(actions.outbox.get()))

  const onBatch = ({ items, offset }: Batch) => {
    if (items.length === 0) return
    const first = positionOf(offset) - items.length
    window.extend(readNotes(items, first, JSON.stringify(items).length), offset)
    actions.arrived(window.messages)
  }
  const run = async () => {
    while (!closed.signal.aborted) {
      let end = ""
      const open = async () => {
        end = await window.open()
      }
      const failed = await insist(open, access, closed.signal, () => undefined)
      // It was compacted while we read it.
      if (failed === "trimmed") continue
      if (failed) return connection.set("gone")
      actions.arrived(window.messages)
      const again = new AbortController()
      reopen = () => again.abort()
      const signal = AbortSignal.any([closed.signal, again.signal])
      const follower = { onBatch, onConnection: (now: Connection) => connection.set(now) }
      const why = await follow(streamUrl, access, end, follower, signal)
      if (why === "gone") return connection.set("gone")
    }
  }
  void run()
  return { id, window, actions, connection, close: () => closed.abort() }
}
