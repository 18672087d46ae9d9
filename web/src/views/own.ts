/** The views that are more than a table and a chart, by their id in `list.ts`. */
import type { FunctionComponent } from "preact";
import { CallTreeView } from "./call-tree";
import { CompareView } from "./compare";
import { FindingsView } from "./findings";
import { HotspotsView } from "./hotspots";
import { MemoryView } from "./memory";
import { MetricsView } from "./metrics";
import { ModulesView } from "./modules";
import { OverviewView } from "./overview";
import { RooflineView } from "./roofline";
import { SqlView } from "./sql";
import { StepsView } from "./steps";
import { TimelineView } from "./timeline";

export const OWN: Readonly<Record<string, FunctionComponent>> = {
  overview: OverviewView,
  findings: FindingsView,
  steps: StepsView,
  modules: ModulesView,
  "call-tree": CallTreeView,
  memory: MemoryView,
  hotspots: HotspotsView,
  metrics: MetricsView,
  timeline: TimelineView,
  roofline: RooflineView,
  compare: CompareView,
  sql: SqlView,
};
