import { useLayoutEffect, useRef } from "react"
import type { Piece } from "../growth"
import { Prose, paperOf } from "../prose"

/** A text that is there, or one that grows; it may change from the one to the other in place. */
export function Text({ from, hasCaret = false }: { from: string | Piece; hasCaret?: boolean }) {
  const root = useRef<HTMLDivElement>(null)
  const prose = useRef<Prose>(undefined)

  useLayoutEffect(() => {
    if (!root.current) return undefined
    const writer = (prose.current ??= new Prose(paperOf(root.current)))
    if (typeof from === "string") {
      writer.become(from)
      writer.finish()
      return undefined
    }
    writer.become(from.text)
    return from.follow((more) => writer.append(more))
  }, [from])

  return <div ref={root} className={hasCaret ? "text caret" : "text"} />
}
