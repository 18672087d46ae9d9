/** The timeline: what ran when, on every rank, thread and stream. */
import { useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import { Missing } from "../parts/missing";
import { NoAnswer } from "../source/source";
import type { Layout } from "../source/timeline";
import { changed } from "../state/address";
import { usePage, useRecording, useWait } from "../state/page";
import { Board } from "../timeline/board";

export function TimelineView() {
  const { source, address, live } = usePage();
  const recording = useRecording();
  const [layout, setLayout] = useState<Layout | NoAnswer | null>(null);
  const [tries, again] = useReducer((count: number) => count + 1, 0);
  useWait(layout === null);
  useLayoutEffect(() => {
    setLayout(null);
    const ends = new AbortController();
    const show = (value: Layout | NoAnswer) => ends.signal.aborted || setLayout(value);
    source
      .timeline(recording.id, "layout", {}, ends.signal)
      .then(show, (reason: unknown) =>
        show(reason instanceof NoAnswer ? reason : new NoAnswer(String(reason))),
      );
    return () => ends.abort();
  }, [source, recording.id, tries]);
  useEffect(() => {
    if (layout instanceof NoAnswer) again(undefined);
  }, [live.version]);
  // The board knows what it writes into the address itself; anything else is another place to show.
  const written = useRef("");
  const opened = useRef(0);
  const state = useMemo(() => JSON.stringify([...changed(address, {}).state]), [address]);
  const seen = useRef(state);
  if (state !== seen.current) {
    if (state !== written.current) opened.current += 1;
    seen.current = state;
  }
  return (
    <>
      <header class="view-head">
        <h1>What ran when?</h1>
      </header>
      {layout === null && (
        <p class="waiting" role="status">
          Reading …
        </p>
      )}
      {layout instanceof NoAnswer && (
        <Missing
          message={layout.message}
          hint={layout.hint}
          again={layout.passing ? live.again : undefined}
        />
      )}
      {layout !== null && !(layout instanceof NoAnswer) && layout.missing !== "" && (
        <Missing
          message={layout.missing}
          hint="A trace has them: record it with torch.profiler, with stepscope record --trace, or with nsys."
        />
      )}
      {layout !== null && !(layout instanceof NoAnswer) && layout.missing === "" && (
        <Board
          key={`${recording.id} ${opened.current}`}
          layout={layout}
          recording={recording.id}
          onWrite={(text) => {
            written.current = text;
          }}
        />
      )}
    </>
  );
}
