import { useCallback, useLayoutEffect, useRef, useState } from "react"
import type { MouseEvent, ReactNode } from "react"

/** How near to the end counts as being there. */
const NEAR_PX = 48

interface Props {
  /** How often the reader has said something: whoever speaks wants to see the answer. */
  sent: number
  children: ReactNode
}

/** All that was said. It stays at its end for as long as the reader is there. */
export function Transcript({ sent, children }: Props) {
  const frame = useRef<HTMLDivElement>(null)
  const content = useRef<HTMLDivElement>(null)
  const isAtEnd = useRef(true)
  /** Whether the reader has just opened or closed something, and wants to look at that. */
  const isLooking = useRef(false)
  const [showsJump, setShowsJump] = useState(false)

  const toEnd = useCallback(() => {
    const box = frame.current
    if (box) box.scrollTop = box.scrollHeight
  }, [])

  const judge = useCallback(() => {
    const box = frame.current
    if (!box) return
    isAtEnd.current = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_PX
    setShowsJump(!isAtEnd.current)
  }, [])

  const onClick = (event: MouseEvent) => {
    isLooking.current = (event.target as Element).closest("summary") !== null
  }

  useLayoutEffect(() => {
    if (!frame.current || !content.current) return undefined
    // Text grows without React, so its size is what tells.
    const observer = new ResizeObserver(() => {
      if (isAtEnd.current && !isLooking.current) toEnd()
      else judge()
      isLooking.current = false
    })
    observer.observe(content.current)
    observer.observe(frame.current)
    return () => observer.disconnect()
  }, [toEnd, judge])

  useLayoutEffect(toEnd, [sent, toEnd])

  return (
    <div className="transcript">
      <div
        ref={frame}
        className="scroll"
        role="log"
        aria-live="polite"
        aria-label="Conversation"
        tabIndex={0}
        onScroll={judge}
        onClick={onClick}
      >
        <div ref={content} className="column">
          {children}
        </div>
      </div>
      {showsJump && (
        <button type="button" className="jump" onClick={toEnd}>
          Jump to latest
        </button>
      )}
    </div>
  )
}
