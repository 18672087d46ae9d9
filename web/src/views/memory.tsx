/** Memory over time, stacked by purpose; selecting a moment lists what is alive, a range what happens in it. */
import { useCallback, useMemo } from "preact/hooks";
import type uPlot from "uplot";
import { colourOf } from "../format/parts";
import { bytesText, tickText, timeText } from "../format/units";
import { Answered } from "../parts/answered";
import { Choice } from "../parts/choice";
import { axes, Plot, stepped } from "../parts/plot";
import { Words } from "../parts/words";
import type { Row } from "../source/source";
import { useAnswer, useChange, usePage } from "../state/page";
import { CATEGORIES, type Curve, curvesOf } from "../table/memory";
import { GroupView } from "./group";
import { VIEWS } from "./list";

const COLOURS: Readonly<Record<string, string>> = {
  parameters: "--kernel",
  gradients: "--communication",
  optimizer_state: "--cpu-exec",
  activations: "--memcpy",
  temporaries: "--memset",
  unknown: "--line",
};

export function MemoryView() {
  const view = VIEWS.find((one) => one.id === "memory");
  return view === undefined ? null : <GroupView view={view} first={<Curves />} />;
}

/** Memory over time; nothing if none was recorded. */
export function Curves() {
  const { address, source } = usePage();
  const change = useChange();
  const stretch = address.state.get("window");
  const asked = useAnswer("memory", { by: "time", ...(stretch === undefined ? {} : { window: stretch }) });
  const peaks = useAnswer("memory", stretch === undefined ? {} : { window: stretch });
  const reset = () => change({ window: null, at_ns: null });
  const all = (
    <button type="button" onClick={reset}>
      Show all, at the peak
    </button>
  );
  if (asked.state === "failed" && stretch !== undefined) {
    return (
      <p class="note">
        No curve of this stretch. {asked.error.message} {all}
      </p>
    );
  }
  if (asked.state === "answered" && asked.value.answer.rows.length === 0) return null;
  return (
    <Answered asked={asked} bare>
      {(reply) => {
        const curves = curvesOf(reply.answer.rows);
        const chosen = curves.find((one) => one.name === address.state.get("device")) ?? curves[0];
        if (chosen === undefined) return null;
        const summaries: readonly Row[] = peaks.state === "answered" ? peaks.value.answer.rows : [];
        const own = summaries.find((row) => chosen.isOf(row));
        const typed = Number(address.state.get("at_ns"));
        const isChosen = address.state.has("at_ns") && Number.isFinite(typed);
        const moment = isChosen ? typed : own?.at_ns;
        // Both a moment and a range select allocations, which are the rows shown.
        const choose = (state: Readonly<Record<string, string | null>>) =>
          change({ by: "allocation", page: null, ...state });
        return (
          <section class="card">
            <h2>
              Memory of {chosen.name}{" "}
              <span class="plain">
                {typeof own?.peak_bytes === "number" &&
                  `peak ${bytesText(own.peak_bytes)} at ${timeText(Number(own.at_ns))}`}
              </span>
              {curves.length > 1 && (
                <Choice
                  name="of"
                  options={curves.map((one) => one.name)}
                  chosen={chosen.name}
                  onChoose={(name) => change({ device: name })}
                />
              )}
            </h2>
            <CurvePlot
              curve={chosen}
              moment={typeof moment === "number" ? moment : null}
              onMoment={(ns) => choose({ at_ns: String(Math.round(ns)) })}
              onStretch={
                source.kind === "server"
                  ? (from, to) => choose({ window: `${Math.round(from)}ns:${Math.round(to)}ns`, at_ns: null })
                  : undefined
              }
              onReset={stretch !== undefined || isChosen ? reset : undefined}
            />
            <p class="muted small">
              {isChosen
                ? `The dotted line is the chosen moment, ${timeText(typed)}: the rows below are of what is alive then.`
                : `The dotted line is the peak${stretch === undefined ? "" : " of this stretch"}.`}{" "}
              <Words
                text={
                  source.kind === "server"
                    ? "Press a moment to list what is alive then; drag over a stretch to list what lives in it."
                    : "Press a moment to list what is alive then. What lives in a stretch: `stepscope view SRC`."
                }
              />{" "}
              {(stretch !== undefined || isChosen) && all}
            </p>
          </section>
        );
      }}
    </Answered>
  );
}

interface CurveProps {
  readonly curve: Curve;
  readonly moment: number | null;
  readonly onMoment: ((ns: number) => void) | undefined;
  readonly onStretch: ((from: number, to: number) => void) | undefined;
  readonly onReset: (() => void) | undefined;
}

/** Round numbers of bytes. */
const BINARY = Array.from({ length: 50 }, (_, power) => 2 ** power);

function CurvePlot({ curve, moment, onMoment, onStretch, onReset }: CurveProps) {
  const used = useMemo(
    () => CATEGORIES.filter((one) => curve.parts[one].some((value) => (value ?? 0) > 0)),
    [curve],
  );
  const isReserved = curve.reserved.some((value) => value !== null);
  const data = useMemo(() => {
    // Parts are stacked; the highest is drawn first, so that the lower ones cover it.
    const below = curve.times.map(() => 0);
    const sums = used.map((one) =>
      curve.parts[one].map((value, place) => {
        below[place] = (below[place] ?? 0) + (value ?? 0);
        return below[place] ?? 0;
      }),
    );
    return [
      curve.times,
      ...sums.reverse(),
      curve.allocated,
      ...(isReserved ? [curve.reserved] : []),
    ] as unknown as uPlot.AlignedData;
  }, [curve, used]);
  const options = useCallback((): Omit<uPlot.Options, "width" | "height"> => {
    const bytes = (value: number | null | undefined) =>
      value === null || value === undefined ? "–" : bytesText(value);
    const filled = [...used].reverse().map((one) => ({
      label: one.replaceAll("_", " "),
      fill: colourOf(COLOURS[one] ?? "--line"),
      stroke: colourOf(COLOURS[one] ?? "--line"),
      width: 0,
      paths: stepped,
      points: { show: false },
      value: (_: uPlot, __: number | null, ___: number, place: number | null) =>
        place === null ? "–" : bytes(curve.parts[one][place]),
    }));
    const plain = {
      label: "allocated",
      stroke: colourOf("--kernel"),
      width: 1.5,
      paths: stepped,
      points: { show: false },
      value: (_: uPlot, value: number | null) => bytes(value),
    };
    return {
      scales: { x: { time: false }, y: { range: (_, __, high) => [0, high * 1.05 || 1] } },
      axes: axes(
        (ns) => tickText(ns, "ns"),
        (value) => tickText(value, "bytes"),
      ).map((one, place) => (place === 1 ? { ...one, incrs: BINARY } : one)),
      series: [
        {
          label: "time",
          value: (_, ns) => (ns === null ? "–" : timeText(ns)),
        },
        ...filled,
        { ...plain, stroke: colourOf(used.length > 0 ? "--ink" : "--kernel") },
        ...(isReserved
          ? [{ ...plain, label: "reserved (dashed)", stroke: colourOf("--ink"), dash: [4, 3] }]
          : []),
      ],
      hooks: {
        draw: [
          (plot) => {
            if (moment === null) return;
            const x = plot.valToPos(moment, "x", true);
            const { ctx, bbox } = plot;
            ctx.save();
            ctx.strokeStyle = colourOf("--ink");
            ctx.setLineDash([2, 3]);
            ctx.beginPath();
            ctx.moveTo(x, bbox.top);
            ctx.lineTo(x, bbox.top + bbox.height);
            ctx.stroke();
            ctx.restore();
          },
        ],
      },
    };
  }, [curve, used, moment]);
  return (
    <Plot
      options={options}
      data={data}
      height={260}
      label={`Memory of ${curve.name} over time`}
      onChoose={onMoment}
      onStretch={onStretch}
      onReset={onReset}
    />
  );
}
