import { useCallback, useLayoutEffect, useRef, useState } from "react"
import type { ReactNode } from "react"

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
  const [showsJump, setShowsJump] = useState(false)

  const toEnd = useCallback(() => {
    const box = frame.current
    if (box) box.scrollTop = box.scrollHeight
  }, [])

  const onScroll = () => {
    const box = frame.current
    if (!box) return
    isAtEnd.current = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_PX
    setShowsJump(!isAtEnd.current)
  }

  useLayoutEffect(() => {
    if (!frame.current || !content.current) return undefined
    // Text grows without React, so its size is what tells.
    const observer = new ResizeObserver(() => {
      if (isAtEnd.current) toEnd()
    })
    observer.observe(content.current)
    observer.observe(frame.current)
    return () => observer.disconnect()
  }, [toEnd])

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
        onScroll={onScroll}
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
