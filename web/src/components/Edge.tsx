import type { Edge as EdgeState } from "../window"

interface Props {
  edge: EdgeState
  /** What is there, as a button says it. */
  label: string
  onLoad(): void
  children?: React.ReactNode
}

/** Where what is shown ends and more can be had: by scrolling there, or by this button. */
export function Edge({ edge, label, onLoad, children }: Props) {
  if (edge.state === "none") return null
  return (
    <div className="edge" data-state={edge.state}>
      {edge.state === "failed" && (
        <p className="error" role="alert">
          {edge.why}
        </p>
      )}
      <div className="edge-buttons">
        <button
          type="button"
          aria-disabled={edge.state === "loading"}
          onClick={onLoad}
        >
          {edge.state === "loading" ? "Loading…" : edge.state === "failed" ? "Try again" : label}
        </button>
        {children}
      </div>
    </div>
  )
}
