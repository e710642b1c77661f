import { useState } from "react"
import type { Connection } from "../follow"

const WORDS: Record<Connection, string> = {
  connecting: "Connecting…",
  live: "",
  reconnecting: "Reconnecting…",
  gone: "There is no such session",
}

export function Header({ id, connection }: { id: string; connection: Connection }) {
  return (
    <header className="header">
      <h1>
        <img src="/mark.svg" alt="" width="20" height="20" /> Headwater
      </h1>
      <span className="session" title={id}>
        {id}
      </span>
      <p className="connection" role="status" data-state={connection}>
        {WORDS[connection]}
      </p>
      <CopyLink />
      <a className="quiet" href="/">
        New session
      </a>
    </header>
  )
}

const COPIED_MS = 2_000

function CopyLink() {
  const [label, setLabel] = useState("Copy link")
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(location.href)
      setLabel("Copied")
    } catch {
      setLabel("Copy it from the address bar")
    }
    setTimeout(() => setLabel("Copy link"), COPIED_MS)
  }
  return (
    <button type="button" className="quiet" onClick={() => void copy()}>
      {label}
    </button>
  )
}
