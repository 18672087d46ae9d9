/** Draws the page where its document has a place for it. */
import { render } from "preact";
import { App } from "./app";
import { openSource } from "./source/open";
import "./style/page.css";

const place = document.getElementById("stepscope");
if (place !== null) {
  try {
    render(<App source={openSource(document)} />, place);
  } catch (reason) {
    place.textContent = reason instanceof Error ? reason.message : String(reason);
  }
}
