import { useImperativeHandle, useRef, useState } from "react"
import type { KeyboardEvent, Ref, SubmitEvent } from "react"
import type { Conversation } from "../conversation"

interface Props {
  running: Conversation["running"]
  onSend(text: string): void
  onStop(): void
  ref?: Ref<{ focus(): void }>
}

/** Where one writes. Enter sends, Shift and Enter begin a line, Esc stops. */
export function Composer({ running, onSend, onStop, ref }: Props) {
  const [text, setText] = useState("")
  const box = useRef<HTMLTextAreaElement>(null)
  useImperativeHandle(ref, () => ({ focus: () => box.current?.focus() }), [])

  const send = () => {
    if (!text.trim()) return
    onSend(text.trim())
    setText("")
    box.current?.focus()
  }
  const onKeyDown = (event: KeyboardEvent) => {
    // While a word is being composed, Enter takes the word.
    if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) {
      event.preventDefault()
      send()
    }
    if (event.key === "Escape" && running && !running.isStopping) onStop()
  }
  const onSubmit = (event: SubmitEvent) => {
    event.preventDefault()
    send()
  }

  return (
    <form className="composer" onSubmit={onSubmit}>
      <textarea
        ref={box}
        aria-label="Message"
        placeholder="Say something"
        rows={1}
        value={text}
        autoFocus
        onChange={(event) => setText(event.target.value)}
        onKeyDown={onKeyDown}
      />
      {running && (
        <button type="button" className="stop" disabled={running.isStopping} onClick={onStop}>
          Stop
        </button>
      )}
      <button type="submit" className="send" disabled={!text.trim()}>
        Send
      </button>
    </form>
  )
}
