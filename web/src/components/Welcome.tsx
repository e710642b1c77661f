const IDEAS = [
  "What is the weather in Oslo and in Lima?",
  "Tell me a long story.",
  "What time is it?",
]

/** What to do with an empty session. */
export function Welcome({ onPick }: { onPick(text: string): void }) {
  return (
    <section className="welcome">
      <h2>Say something.</h2>
      <p>
        Every word is on disk before you see it. Refresh in the middle of an answer, open this
        address in a second tab, or kill the server and start it again: the conversation goes on.
      </p>
      <ul>
        {IDEAS.map((idea) => (
          <li key={idea}>
            <button type="button" onClick={() => onPick(idea)}>
              {idea}
            </button>
          </li>
        ))}
      </ul>
    </section>
  )
}
