/** Ranks side by side, and below the questions about what they send each other. */
import { ColumnsChart } from "../parts/columns-chart";
import type { RowOf } from "../source/source";
import { useAnswer, useDeclaration } from "../state/page";
import { GroupView } from "./group";
import { VIEWS } from "./list";

type Rank = RowOf<"rank-overview">;

const PARTS: readonly (readonly [string, string, (row: Rank) => number | null | undefined])[] = [
  ["computation", "--kernel", (row) => row.computation_ns],
  ["exposed communication", "--communication", (row) => row.exposed_communication_ns],
  ["exposed copies", "--memcpy", (row) => row.exposed_copy_ns],
  ["idle", "--other", (row) => row.idle_ns],
];

export function CommunicationView() {
  const view = VIEWS.find((one) => one.id === "communication");
  if (view === undefined) return null;
  return <GroupView view={view} first={useDeclaration("rank-overview") && <Ranks />} />;
}

function Ranks() {
  const asked = useAnswer("rank-overview");
  if (asked.state !== "answered") return null;
  const rows = asked.value.answer.rows.filter((row) => typeof row.span_ns === "number");
  if (rows.length < 2) return null;
  const columns = rows.map((row) => ({
    name: `rank ${row.rank}`,
    parts: PARTS.map(([title, colour, value]) => ({
      title,
      colour,
      value: (value(row) ?? 0) / (row.steps || 1),
    })),
  }));
  return (
    <section class="card">
      <h2>
        Ranks{" "}
        <span class="plain">device time per step; one that communicates long may wait for the others</span>
      </h2>
      <ColumnsChart columns={columns} label="What the devices of each rank did" height={150} />
      <ul class="legend">
        {PARTS.map(([title, colour]) => (
          <li key={title}>
            <span class="swatch" style={{ background: `var(${colour})` }} />
            {title}
          </li>
        ))}
      </ul>
    </section>
  );
}
