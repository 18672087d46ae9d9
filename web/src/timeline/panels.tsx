/** The panels below the timeline: the selected event, a measured range, and the legend. */
import { plain } from "../format/cut";
import { countText, ratioText, timeText, valueText } from "../format/units";
import type { EventDetails, EventField, Layout, Measured, Place, Stretch } from "../source/timeline";
import { useLink } from "../state/page";
import { searchFor } from "./address";
import { colourOfKind } from "./colours";
import type { Mark } from "./hit";
import { momentText } from "./scale";

const KIND_WORDS: Readonly<Record<string, string>> = {
  computation: "computation on a device",
  communication: "communication",
  copy: "copy",
  fill: "fill",
  operator: "operator",
  annotation: "range or module",
  runtime: "runtime call",
  python: "Python",
  dataloader: "data loader",
  other: "other",
};

/** The view with the answer about all events of a kind. */
const VIEWS: Readonly<Record<string, string>> = {
  computation: "kernels",
  communication: "kernels",
  operator: "operators",
};

/** Whether a recording has tracks other than curves. */
export function hasEvents({ ranks }: Layout): boolean {
  return ranks.some(({ tracks }) => tracks.some(({ kind }) => kind !== "counter" && kind !== "memory"));
}

export function Legend({ layout }: { readonly layout: Layout }) {
  if (!hasEvents(layout)) return null;
  return (
    <ul class="legend">
      {layout.kinds
        .filter((kind) => kind in KIND_WORDS)
        .map((kind) => (
          <li key={kind}>
            <span class="swatch" style={{ background: `var(${colourOfKind(kind)})` }} />
            <span>{KIND_WORDS[kind]}</span>
          </li>
        ))}
      <li class="muted">Paler: several events that are too short to be seen, drawn as one block</li>
    </ul>
  );
}

interface EventProps {
  readonly mark: Mark | null;
  readonly pointed: Mark | null;
  readonly details: EventDetails | null;
  readonly layout: Layout;
  readonly onGo: (place: Place) => void;
  readonly onFit: () => void;
}

export function EventPanel({ mark, pointed, details, layout, onGo, onFit }: EventProps) {
  const link = useLink();
  const view = mark === null ? undefined : VIEWS[mark.kind];
  return (
    <>
      <p class="timeline-words small" aria-live="polite">
        {pointed !== null
          ? words(pointed)
          : mark !== null
            ? words(mark)
            : hasEvents(layout)
              ? "Point at an event, or walk over them with the arrow keys."
              : "Values over time; on the left the largest of those in sight."}
      </p>
      {mark !== null && (
        <section class="card event-panel" aria-label="The chosen event">
          <h2>{mark.count > 1 ? `${countText(mark.count)} events` : plain(details?.name ?? mark.name)}</h2>
          {mark.count > 1 ? (
            <p>
              A block of {countText(mark.count)} events that are too short to be seen, {timeText(mark.busy)}{" "}
              together. The longest is {plain(mark.name)}.{" "}
              <button type="button" onClick={onFit}>
                Zoom in
              </button>
            </p>
          ) : (
            details === null && <p role="status">Reading …</p>
          )}
          {mark.count === 1 && details !== null && (
            <>
              <p>
                {view !== undefined && (
                  <a href={link(view, { find: searchFor(details.name) })}>All of this name under {view}</a>
                )}
              </p>
              <dl class="fields">
                {details.fields.map((one) => (
                  <Field key={one.title} field={one} />
                ))}
              </dl>
              {details.links.map(({ relation, total, places }) => (
                <div key={relation} class="related">
                  <h3>
                    {relation} {total > 1 && <span class="muted">({countText(total)})</span>}
                  </h3>
                  <ul>
                    {places.map((place) => (
                      <li key={place.id}>
                        <button type="button" class="as-link" onClick={() => onGo(place)}>
                          {plain(place.name)}
                        </button>{" "}
                        <span class="muted">
                          {timeText(place.end_ns - place.start_ns)}, {titleOf(layout, place.track)}
                        </span>
                      </li>
                    ))}
                  </ul>
                  {total > places.length && <p class="muted">and {countText(total - places.length)} more</p>}
                </div>
              ))}
            </>
          )}
        </section>
      )}
    </>
  );
}

/** The start of something, to the microsecond, in the unit of the axis. */
function startText(at: number): string {
  return momentText(at, 1000);
}

function words(mark: Mark): string {
  const moment = startText(mark.from);
  const name = plain(mark.name);
  if (mark.count > 1) {
    return `${countText(mark.count)} events, ${timeText(mark.busy)} together, from ${moment}; the longest: ${name}`;
  }
  return `${name}: ${timeText(mark.to - mark.from)} from ${moment}`;
}

function Field({ field }: { readonly field: EventField }) {
  const { title, value, unit, meaning } = field;
  const text = valueText(value, unit === "moment" ? { unit: "ns", moment: true } : { unit });
  const isStack = title === "call stack frames";
  return (
    <div class={isStack ? "wide" : ""}>
      <dt title={meaning}>{title}</dt>
      <dd>
        {isStack ? text.split(";").map((frame, place) => <div key={`${place} ${frame}`}>{frame}</div>) : text}
      </dd>
    </div>
  );
}

function titleOf(layout: Layout, id: string): string {
  for (const rank of layout.ranks) {
    const track = rank.tracks.find((one) => one.id === id);
    if (track !== undefined) return layout.ranks.length > 1 ? `${rank.title}, ${track.title}` : track.title;
  }
  return id;
}

interface MeasuredProps {
  readonly range: Stretch;
  readonly tracks: readonly string[];
  readonly sums: Measured | null;
  readonly layout: Layout;
  readonly onZoom: () => void;
  readonly onClear: () => void;
  readonly onFind: (name: string) => void;
}

export function MeasuredPanel({ range, tracks, sums, layout, onZoom, onClear, onFind }: MeasuredProps) {
  const length = Math.round(range[1] - range[0]);
  return (
    <section class="card" aria-label="The measured range">
      <h2>
        {timeText(length)}{" "}
        <span class="plain">
          from {startText(Math.round(range[0]))}, {countText(tracks.length)}{" "}
          {tracks.length === 1 ? "track" : "tracks"}
        </span>
      </h2>
      <p>
        <button type="button" onClick={onZoom}>
          Zoom to it
        </button>{" "}
        <button type="button" onClick={onClear}>
          Close
        </button>
      </p>
      {sums === null ? (
        <p role="status">Reading …</p>
      ) : (
        <>
          <p class="muted small">
            Times within the range. A call's time contains that of the calls it makes, so that rows of one
            thread do not add up.
          </p>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
          <section class="scroll" tabIndex={0} aria-label="Sums by name in the measured range">
            <table>
              <thead>
                <tr>
                  <th scope="col">name</th>
                  <th scope="col">track</th>
                  <th scope="col" class="number">
                    events
                  </th>
                  <th scope="col" class="number">
                    time
                  </th>
                  <th scope="col" class="number">
                    share of the range
                  </th>
                  <th scope="col" class="number">
                    longest
                  </th>
                </tr>
              </thead>
              <tbody>
                {sums.rows.slice(0, 100).map((row) => (
                  <tr key={`${row.track} ${row.kind} ${row.name}`}>
                    <td>
                      <button type="button" class="as-link" onClick={() => onFind(searchFor(row.name))}>
                        {plain(row.name)}
                      </button>
                    </td>
                    <td>{titleOf(layout, row.track)}</td>
                    <td class="number">{countText(row.count)}</td>
                    <td class="number">{timeText(row.total_ns)}</td>
                    <td class="number">{length > 0 ? ratioText(row.total_ns / length) : ""}</td>
                    <td class="number">{timeText(row.max_ns)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </section>
          {sums.names > Math.min(sums.rows.length, 100) && (
            <p class="muted">The 100 with most time, of {countText(sums.names)}.</p>
          )}
        </>
      )}
    </section>
  );
}
