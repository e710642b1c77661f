import { memo, useCallback, useSyncExternalStore } from "react"
import type { Actions } from "../actions"
import type { Answer as AnswerEntry, Part, Turn as TurnEntry } from "../conversation"
import type { Growth, Piece } from "../growth"
import { Text } from "./Text"
import { CallToCome, ToolCall } from "./ToolCall"

interface Props {
  answer: AnswerEntry
  growth: Growth
  actions: Actions
}

/** What an agent said and did. */
export const Answer = memo(function Answer({ answer, growth, actions }: Props) {
  const isUnderWay = answer.state === "pending" || answer.state === "generating"
  return (
    <article className="answer" aria-busy={isUnderWay} data-state={answer.state}>
      <h2 className="by">{answer.by}</h2>
      {answer.turns.map((turn) => (
        <Turn key={turn.id} turn={turn} growth={growth} actions={actions} />
      ))}
      {answer.isThinking && <Working />}
      {answer.ending && (
        <p className={answer.ending.tone === "failed" ? "ending error" : "ending"}>
          {answer.ending.text}
        </p>
      )}
    </article>
  )
})

export function Working() {
  return (
    <p className="working">
      <span className="visually-hidden">At work</span>
      <i />
      <i />
      <i />
    </p>
  )
}

function Turn({ turn, growth, actions }: { turn: TurnEntry; growth: Growth; actions: Actions }) {
  const watch = useCallback(
    (watcher: () => void) => growth.watch(turn.id, watcher),
    [growth, turn.id],
  )
  const pieces = useSyncExternalStore(watch, () => growth.pieces(turn.id))
  // Parts and pieces of one kind at one place are one element, so that nothing jumps, and nothing
  // that was opened closes, when a message is finished.
  const parts: readonly (Part | Piece)[] = turn.parts ?? pieces
  if (parts.length === 0 && turn.isGrowing) return <Working />
  return parts.map((part, index) => (
    <PartView
      key={`${index} ${part.kind}`}
      part={part}
      isLast={turn.isGrowing && index === parts.length - 1}
      actions={actions}
    />
  ))
}

function PartView({
  part,
  isLast,
  actions,
}: {
  part: Part | Piece
  isLast: boolean
  actions: Actions
}) {
  const isGrowing = "follow" in part
  switch (part.kind) {
    case "text":
      return <Text from={isGrowing ? part : part.text} hasCaret={isLast} />
    case "thinking":
      return (
        <details className="thoughts">
          <summary>{isLast ? "Thinking…" : "Thoughts"}</summary>
          <Text from={isGrowing ? part : part.text || "The model keeps them to itself."} />
        </details>
      )
    case "call":
      if (isGrowing) return <CallToCome name={part.name} />
      return part.call ? <ToolCall call={part.call} actions={actions} /> : null
    case "other":
      return <p className="ending">{part.text}</p>
  }
}
