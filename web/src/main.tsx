/** Draws the page into its document. */
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
