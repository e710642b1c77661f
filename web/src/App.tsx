import { useEffect, useRef, useState } from "react"
import { sayWhy } from "./actions"
import { Answer, Working } from "./components/Answer"
import { Composer } from "./components/Composer"
import { Edge } from "./components/Edge"
import { Header } from "./components/Header"
import { Said } from "./components/Said"
import { Transcript } from "./components/Transcript"
import { Welcome } from "./components/Welcome"
import type { Session } from "./session"
import { useStore } from "./store"

export function App({ session }: { session: Session }) {
  const { window, actions } = session
  const connection = useStore(session.connection)
  const { entries, growth, isOpen, isBusy, running, earlier, later, jump } = useStore(window.view)
  const [error, setError] = useState("")
  const composer = useRef<{ focus(): void }>(null)

  useEffect(() => {
    document.title = `${session.id} · Headwater`
  }, [session.id])

  const send = (text: string) => {
    setError("")
    actions.send(text)
    // A person who speaks wants to see the answer.
    window.latest()
    composer.current?.focus()
  }
  const stop = () => {
    setError("")
    // The button that was pressed goes away, and must not take the focus with it.
    composer.current?.focus()
    actions.stop(running?.generationId).catch((error: unknown) => setError(sayWhy(error)))
  }

  const isLive = later.state === "none"
  const isEmpty = isOpen && earlier.state === "none" && entries.length === 0
  // An answer that has begun says so itself.
  const isAsked = isLive && isBusy && running?.generationId === undefined
  return (
    <>
      <Header id={session.id} connection={connection} />
      <Transcript
        jump={jump}
        isLive={isLive}
        // A page that could not be read is not asked for again and again by scrolling.
        onEarlier={() => earlier.state === "more" && void window.earlier()}
        onLater={() => later.state === "more" && void window.later()}
        onLatest={() => window.latest()}
        onAtEnd={(isAtEnd) => window.isAtEnd(isAtEnd)}
      >
        {!isOpen && connection !== "gone" && <Opening />}
        {isOpen && (
          <Edge edge={earlier} label="Earlier messages" onLoad={() => void window.earlier()}>
            <button type="button" onClick={() => void window.beginning()}>
              Beginning
            </button>
          </Edge>
        )}
        {earlier.state === "none" && !isLive && (
          <p className="note begins">This is where the session begins.</p>
        )}
        {entries.map((entry) =>
          entry.kind === "said" ? (
            <Said key={entry.id} said={entry} actions={actions} />
          ) : (
            <Answer key={entry.id} answer={entry} growth={growth} actions={actions} />
          ),
        )}
        <Edge edge={later} label="Later messages" onLoad={() => void window.later()} />
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

/** Before anything is known. */
function Opening() {
  return (
    <div className="opening" role="progressbar" aria-label="Opening the session">
      <Working />
    </div>
  )
}
