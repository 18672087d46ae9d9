/** Memory over time, stacked by what it is for; a chosen moment says what is alive, a range what happens in it. */
import { useCallback, useMemo } from "preact/hooks";
import type uPlot from "uplot";
import { colourOf } from "../format/parts";
import { bytesText, timeText, valueText } from "../format/units";
import { Answered } from "../parts/answered";
import { Choice } from "../parts/choice";
import { axis, Plot, stepped } from "../parts/plot";
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
  unknown: "--other",
};

export function MemoryView() {
  const view = VIEWS.find((one) => one.id === "memory");
  return view === undefined ? null : <GroupView view={view} first={<Curves />} />;
}

function Curves() {
  const { address, source } = usePage();
  const change = useChange();
  const stretch = address.state.get("window");
  const asked = useAnswer("memory-curve", stretch === undefined ? {} : { window: stretch });
  const peaks = useAnswer("memory", stretch === undefined ? {} : { window: stretch });
  return (
    <Answered asked={asked} bare>
      {(reply) => {
        const curves = curvesOf(reply.answer.rows);
        const chosen = curves.find((one) => one.name === address.state.get("device")) ?? curves[0];
        if (chosen === undefined) return null;
        const summaries: readonly Row[] = peaks.state === "answered" ? peaks.value.answer.rows : [];
        const own = summaries.find((row) => chosen.isOf(row));
        const typed = Number(address.state.get("at_ns"));
        const moment = address.state.has("at_ns") && Number.isFinite(typed) ? typed : own?.at_ns;
        return (
          <section class="card">
            <h2>
              Memory of {chosen.name}{" "}
              <span class="plain">
                {typeof own?.peak_bytes === "number" &&
                  `peak ${bytesText(own.peak_bytes)} at ${valueText(own.at_ns, { unit: "ns", moment: true })}`}
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
              onMoment={source.kind === "server" ? (ns) => change({ at_ns: String(ns) }) : null}
              onStretch={
                source.kind === "server"
                  ? (from, to) => change({ window: `${from}ns:${to}ns`, at_ns: null })
                  : null
              }
            />
            <p class="muted small">
              The dashed line is the moment that the rows below are about.{" "}
              <Words
                text={
                  source.kind === "server"
                    ? "Press on another to see what is alive then; drag over a stretch to see it alone."
                    : "Another moment, and a stretch alone: `stepscope view SRC`."
                }
              />{" "}
              {(stretch !== undefined || address.state.has("at_ns")) && (
                <button type="button" onClick={() => change({ window: null, at_ns: null })}>
                  Show all, at the peak
                </button>
              )}
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
  readonly onMoment: ((ns: number) => void) | null;
  readonly onStretch: ((from: number, to: number) => void) | null;
}

/** Round numbers of bytes. */
const BINARY = Array.from({ length: 50 }, (_, power) => 2 ** power);
/** Below this width of a drag it was a press. */
const LEAST_DRAG = 5;

function CurvePlot({ curve, moment, onMoment, onStretch }: CurveProps) {
  const used = useMemo(
    () => CATEGORIES.filter((one) => curve.parts[one].some((value) => (value ?? 0) > 0)),
    [curve],
  );
  const isReserved = curve.reserved.some((value) => value !== null);
  const data = useMemo(() => {
    // Each part stands on those before it; the highest is drawn first, so that the lower ones cover it.
    const below = curve.times.map(() => 0);
    const sums = used.map((one) =>
      curve.parts[one].map((value, place) => {
        below[place] = (below[place] ?? 0) + (value ?? 0);
        return below[place] ?? 0;
      }),
    );
    const stacked = used.length > 0 ? sums.reverse() : [curve.allocated];
    return [curve.times, ...stacked, ...(isReserved ? [curve.reserved] : [])] as unknown as uPlot.AlignedData;
  }, [curve, used]);
  const options = useCallback((): Omit<uPlot.Options, "width" | "height"> => {
    const bytes = (value: number | null | undefined) =>
      value === null || value === undefined ? "–" : bytesText(value);
    const filled = [...used].reverse().map((one) => ({
      label: one.replaceAll("_", " "),
      fill: colourOf(COLOURS[one] ?? "--other"),
      stroke: colourOf(COLOURS[one] ?? "--other"),
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
      axes: [axis((ns) => timeText(ns)), { ...axis((value) => bytesText(value)), size: 84, incrs: BINARY }],
      cursor: { drag: { x: onStretch !== null, y: false, setScale: false } },
      series: [
        {
          label: "time",
          value: (_, ns) => (ns === null ? "–" : valueText(ns, { unit: "ns", moment: true })),
        },
        ...(used.length > 0 ? filled : [plain]),
        ...(isReserved ? [{ ...plain, label: "reserved", stroke: colourOf("--ink"), dash: [4, 3] }] : []),
      ],
      hooks: {
        setSelect: [
          (plot) => {
            if (plot.select.width < LEAST_DRAG) return;
            const [from, to] = [plot.select.left, plot.select.left + plot.select.width];
            onStretch?.(Math.round(plot.posToVal(from, "x")), Math.round(plot.posToVal(to, "x")));
          },
        ],
        ready: [
          (plot) =>
            plot.over.addEventListener("click", () => {
              if (plot.select.width < LEAST_DRAG && plot.cursor.left !== undefined) {
                onMoment?.(Math.round(plot.posToVal(plot.cursor.left, "x")));
              }
            }),
        ],
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
  }, [curve, used, moment, onMoment === null]);
  return <Plot options={options} data={data} height={260} label={`Memory of ${curve.name} over time`} />;
}
