import { createRoot } from "react-dom/client"
import { App } from "./App"
import { openSession } from "./session"
import "./styles.css"

/** The address of a session is `/s/{id}`; the server sends everybody else to one. */
const [, id = "main"] = /^\/s\/([^/]+)/.exec(location.pathname) ?? []

const root = document.getElementById("root")
if (!root) throw new Error("index.html has no root")
createRoot(root).render(<App session={openSession(id)} />)
