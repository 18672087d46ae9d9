/** A measure over ranks and steps: a line per rank, a column per step, the stronger the higher. */
import { useMemo } from "preact/hooks";
import { numberText, ratioText } from "../format/units";
import type { Reply } from "../source/source";
import { mapOf } from "../table/map";
import { Walk } from "./walk";

const ROW = 16;
const MOST_NAMES = 24;

export function HeatMap({ reply }: { readonly reply: Reply }) {
  const { rows } = reply.answer;
  const map = useMemo(() => mapOf(rows), [rows]);
  const height = Math.max(3, Math.min(ROW, Math.floor(480 / Math.max(map.ranks.length, 1))));
  const every = Math.ceil(map.steps.length / MOST_NAMES);
  const everyRank = Math.ceil(12 / height);
  const cells = map.ranks.flatMap((rank) =>
    map.steps.map((step) => {
      const row = map.cells.get(`${rank} ${step}`);
      const value = typeof row?.value_ns === "number" ? row.value_ns : null;
      const share = typeof row?.share_ratio === "number" ? `, ${ratioText(row.share_ratio)} of the step` : "";
      const told = value === null ? "none" : `${numberText(value, "ns")}${share}`;
      return { value, aside: row?.counted === false, words: `rank ${rank}, step ${step}: ${told}` };
    }),
  );
  const shade = (value: number) => {
    const part = Math.min(1, Math.max(0, (value - map.low) / (map.high - map.low || 1)));
    return { background: `color-mix(in oklab, var(--kernel) ${Math.round(8 + 92 * part)}%, var(--card))` };
  };
  return (
    <section class="card">
      <Walk
        marks={cells}
        across={map.steps.length}
        label={`A map of ${map.ranks.length} ranks and ${map.steps.length} steps; the table has its numbers`}
      >
        {(at) => (
          <div
            class="heat-map"
            style={{
              gridTemplateColumns: `auto repeat(${map.steps.length}, minmax(3px, 80px))`,
              rowGap: height < 6 ? 0 : "",
            }}
          >
            <span class="muted small">rank / step</span>
            {map.steps.map((step, place) => (
              <span key={step} class="muted small step-name">
                {place % every === 0 ? step : ""}
              </span>
            ))}
            {map.ranks.map((rank, line) => [
              <span key={rank} class="muted small rank-name" style={{ height: `${height}px` }}>
                {line % everyRank === 0 ? rank : ""}
              </span>,
              ...cells
                .slice(line * map.steps.length, (line + 1) * map.steps.length)
                .map((cell, place) => (
                  <span
                    key={cell.words}
                    class={`cell${cell.aside ? " aside" : ""}${cell.value === null ? " unmeasured" : ""}${
                      line * map.steps.length + place === at ? " at" : ""
                    }`}
                    style={cell.value === null ? {} : shade(cell.value)}
                    title={cell.words}
                  />
                )),
            ])}
          </div>
        )}
      </Walk>
      <p class="muted small scale">
        {numberText(map.low, "ns")} <span class="gradient" aria-hidden="true" /> {numberText(map.high, "ns")},
        median {numberText(map.median, "ns")}
      </p>
    </section>
  );
}
