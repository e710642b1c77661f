import { memo } from "react"
import type { Actions } from "../actions"
import type { Said as SaidEntry } from "../conversation"

/** What a person said, and how far it has come. */
export const Said = memo(function Said({ said, actions }: { said: SaidEntry; actions: Actions }) {
  const { id, text, by, state, error } = said
  return (
    <article className="said" data-state={state}>
      <h2 className={by ? "by" : "visually-hidden"}>{by ?? "You"}</h2>
      <div className="bubble">{text}</div>
      {state === "sending" && <p className="note">Sending…</p>}
      {state === "waiting" && <p className="note">Not read yet</p>}
      {state === "refused" && (
        <p className="note error">
          {error}{" "}
          <button type="button" className="link" onClick={() => actions.retry({ id, text })}>
            Retry
          </button>{" "}
          <button type="button" className="link" onClick={() => actions.discard(id)}>
            Discard
          </button>
        </p>
      )}
    </article>
  )
})
