/** A ratio as an arc, and in digits. What was not measured is hatched and says so. */
import { NOT_MEASURED, ratioText } from "../format/units";

interface Props {
  readonly title: string;
  readonly ratio: number | null;
  readonly meaning: string;
}

const RADIUS = 26;
const LENGTH = Math.PI * RADIUS;

export function Gauge({ title, ratio, meaning }: Props) {
  const shown = Math.min(1, Math.max(0, ratio ?? 0));
  return (
    <div class="gauge" title={meaning}>
      <svg viewBox="0 0 64 36" aria-hidden="true">
        <path
          class={ratio === null ? "track unmeasured" : "track"}
          d={`M6 32 a${RADIUS} ${RADIUS} 0 0 1 52 0`}
        />
        {ratio !== null && (
          <path
            class="value"
            d={`M6 32 a${RADIUS} ${RADIUS} 0 0 1 52 0`}
            stroke-dasharray={`${shown * LENGTH} ${LENGTH}`}
          />
        )}
      </svg>
      <b>{ratio === null ? NOT_MEASURED : ratioText(ratio)}</b>
      <span class="muted">{title}</span>
    </div>
  );
}
