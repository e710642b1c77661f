import { useState } from "react"
import type { Actions, Decision } from "../actions"
import { sayWhy } from "../actions"
import type { Call } from "../conversation"

/** A call: one line that says what and how far, with arguments and answer behind it. */
export function ToolCall({ call, actions }: { call: Call; actions: Actions }) {
  const { name, args, state, status, durationMs, result, error } = call
  return (
    <div className="call" data-state={state}>
      <details>
        <summary>
          <span className="call-name">{name}</span>
          <span className="call-args">{preview(args)}</span>
          <span className="call-status">{status}</span>
          {durationMs !== undefined && <span className="call-time">{time(durationMs)}</span>}
        </summary>
        <Field label="Arguments" value={args} />
        {result !== undefined && <Field label="Result" value={result} />}
        {error && state !== "parked" && <Field label="Error" value={error} />}
      </details>
      {call.needsDecision && <Decide call={call} actions={actions} />}
    </div>
  )
}

/** A call that the model is still writing. */
export function CallToCome({ name }: { name: string }) {
  return (
    <div className="call" data-state="pending">
      <div className="call-line">
        <span className="call-name">{name}</span>
        <span className="call-args" />
        <span className="call-status">preparing</span>
      </div>
    </div>
  )
}

function Decide({ call, actions }: { call: Call; actions: Actions }) {
  const [isSending, setSending] = useState(false)
  const [error, setError] = useState("")
  const decide = async (decision: Decision) => {
    setSending(true)
    setError("")
    try {
      await actions.resolve(call.id, call.attempt, decision)
    } catch (error) {
      setError(sayWhy(error))
      setSending(false)
    }
  }
  return (
    <div className="decide" role="group" aria-label={`What becomes of ${call.name}`}>
      <p>
        Nobody can tell whether this call ran before the server went away, and it must not run
        twice. What should become of it?
      </p>
      <div className="decide-buttons">
        <button type="button" disabled={isSending} onClick={() => void decide("retry")}>
          Run again
        </button>
        <button type="button" disabled={isSending} onClick={() => void decide("fail")}>
          Mark as failed
        </button>
      </div>
      {error && <p className="error">{error}</p>}
    </div>
  )
}

function Field({ label, value }: { label: string; value: unknown }) {
  return (
    <div className="field">
      <div className="field-label">{label}</div>
      <pre>{typeof value === "string" ? value : JSON.stringify(value, null, 2)}</pre>
    </div>
  )
}

const PREVIEW_CHARS_MAX = 120

function preview(args: unknown): string {
  if (args === null || args === undefined) return ""
  const values = typeof args === "object" ? Object.values(args) : [args]
  const text = values.map((it) => (typeof it === "string" ? it : JSON.stringify(it))).join(", ")
  return text.slice(0, PREVIEW_CHARS_MAX)
}

function time(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1_000)} s`
}
