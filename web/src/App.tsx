import { useLiveQuery } from "@tanstack/react-db"
import { useEffect, useMemo, useRef, useState } from "react"
import { sayWhy } from "./actions"
import { Answer, Working } from "./components/Answer"
import { Composer } from "./components/Composer"
import { Header } from "./components/Header"
import { Said } from "./components/Said"
import { Transcript } from "./components/Transcript"
import { Welcome } from "./components/Welcome"
import { conversation } from "./conversation"
import type { Conversation } from "./conversation"
import type { Session } from "./session"
import { useStore } from "./store"

export function App({ session }: { session: Session }) {
  const { growth, actions } = session
  const connection = useStore(session.connection)
  const { entries, isBusy, running } = useConversation(session)
  const [error, setError] = useState("")
  const [sent, setSent] = useState(0)
  const composer = useRef<{ focus(): void }>(null)

  useEffect(() => {
    document.title = `${session.id} · Headwater`
  }, [session.id])

  const send = (text: string) => {
    setError("")
    actions.send(text)
    setSent(sent + 1)
    composer.current?.focus()
  }
  const stop = () => {
    setError("")
    // The button that was pressed goes away, and must not take the focus with it.
    composer.current?.focus()
    actions.stop(running?.generationId).catch((error: unknown) => setError(sayWhy(error)))
  }

  const isEmpty = entries.length === 0
  // An answer that has begun says so itself.
  const isAsked = isBusy && running?.generationId === undefined
  return (
    <>
      <Header id={session.id} connection={connection} />
      <Transcript sent={sent}>
        {entries.map((entry) =>
          entry.kind === "said" ? (
            <Said key={entry.id} said={entry} actions={actions} />
          ) : (
            <Answer key={entry.id} answer={entry} growth={growth} actions={actions} />
          ),
        )}
        {isAsked && <Working />}
        {isEmpty && connection === "live" && <Welcome onPick={send} />}
      </Transcript>
      <footer className="footer">
        {error && (
          <p className="error" role="alert">
            {error}
          </p>
        )}
        <Composer ref={composer} running={running} onSend={send} onStop={stop} />
        <p className="hint">Enter sends · Shift+Enter begins a line · Esc stops</p>
      </footer>
    </>
  )
}

function useConversation({ collections, actions, me }: Session): Conversation {
  const { data: messages } = useLiveQuery(collections.messages)
  const { data: generations } = useLiveQuery(collections.generations)
  const { data: steps } = useLiveQuery(collections.steps)
  const { data: toolCalls } = useLiveQuery(collections.toolCalls)
  const { data: stops } = useLiveQuery(collections.stops)
  const { data: resolutions } = useLiveQuery(collections.resolutions)
  const outbox = useStore(actions.outbox)
  return useMemo(
    () => conversation({ messages, generations, steps, toolCalls, stops, resolutions, outbox, me }),
    [messages, generations, steps, toolCalls, stops, resolutions, outbox, me],
  )
}
