import { useCallback, useLayoutEffect, useRef, useState } from "react"
import type { MouseEvent, ReactNode } from "react"
import { Anchor } from "../anchor"
import type { View } from "../window"

/** How near to the end counts as being there. */
const NEAR_PX = 48
/** How many screens before an edge the next page is asked for. */
const AHEAD_SCREENS = 1.5

interface Props {
  jump: View["jump"]
  /** Whether the end of what is shown is the end of the session. */
  isLive: boolean
  onEarlier(): void
  onLater(): void
  onLatest(): void
  onAtEnd(isAtEnd: boolean): void
  children: ReactNode
}

/**
 * All that was said. It stays at its end for as long as the reader is there; elsewhere, what is
 * being read stays where it is, whatever comes before or after it.
 */
export function Transcript(props: Props) {
  const { jump, isLive, children } = props
  const frame = useRef<HTMLDivElement>(null)
  const content = useRef<HTMLDivElement>(null)
  const anchor = useRef(new Anchor())
  const isAtEnd = useRef(true)
  /** Whether the reader has just opened or closed something, and wants to look at that. */
  const isLooking = useRef(false)
  const [showsJump, setShowsJump] = useState(false)
  const latest = useRef(props)
  latest.current = props

  const toEnd = useCallback(() => {
    const box = frame.current
    if (box) box.scrollTop = box.scrollHeight
  }, [])

  const judge = useCallback(() => {
    const box = frame.current
    if (!box) return
    const { isLive, onAtEnd, onEarlier, onLater } = latest.current
    const below = box.scrollHeight - box.scrollTop - box.clientHeight
    const ahead = box.clientHeight * AHEAD_SCREENS
    isAtEnd.current = isLive && below < NEAR_PX
    anchor.current.drop(box)
    setShowsJump(!isAtEnd.current)
    onAtEnd(isAtEnd.current)
    if (box.scrollTop < ahead) onEarlier()
    if (!isLive && below < ahead) onLater()
  }, [])

  /** After whatever has changed: stays where the reader is. */
  const settle = useCallback(() => {
    const box = frame.current
    if (!box) return
    if (isAtEnd.current && !isLooking.current) toEnd()
    else if (!isLooking.current) anchor.current.hold(box)
    judge()
    isLooking.current = false
  }, [toEnd, judge])

  const onClick = (event: MouseEvent) => {
    isLooking.current = (event.target as Element).closest("summary") !== null
  }

  useLayoutEffect(() => {
    if (!frame.current || !content.current) return undefined
    // Text grows without React, so its size is what tells.
    const observer = new ResizeObserver(settle)
    observer.observe(content.current)
    observer.observe(frame.current)
    return () => observer.disconnect()
  }, [settle])

  const jumps = useRef(-1)
  useLayoutEffect(() => {
    const hasJumped = jumps.current !== jump.count
    jumps.current = jump.count
    if (!hasJumped) return settle()
    isAtEnd.current = isLive && jump.to === "end"
    if (jump.to === "end") toEnd()
    else if (frame.current) frame.current.scrollTop = 0
    judge()
  }, [children, jump, isLive, settle, judge, toEnd])

  return (
    <div className="transcript">
      <div
        ref={frame}
        className="scroll"
        role="log"
        aria-live={isLive ? "polite" : "off"}
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
        <button type="button" className="jump" onClick={() => latest.current.onLatest()}>
          Jump to latest
        </button>
      )}
    </div>
  )
}
