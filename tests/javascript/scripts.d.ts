// What the scripts of webapp/assets share through `window`, as types. `make lint` checks the scripts
// against it; nothing of it is shipped.

interface DashClientside {
  readonly no_update: unknown;
  readonly callback_context: {readonly triggered_id: string; readonly outputs_list: {id: string}};
  set_props(id: string, props: object): void;
  /** Groups of callbacks, which Dash calls by name. */
  [group: string]: any;
}

interface Window {
  dash_clientside: DashClientside;
  tilescopeFormats: Record<string, (value: any) => unknown>;
  tilescope: TileScope;
  tilescope_files: {
    name(what: string, suffix: string): string;
    heading(title: string): string;
    save(blob: Blob, what: string, suffix: string): void;
    head(context: CanvasRenderingContext2D, about: PictureHead, colours: any, width: number): number;
    headHeight(about: {axes: string}): number;
  };
  tilescope_text: {
    shown(text: string): string;
    parse(text: string): any;
    read(answer: Response): Promise<any>;
  };
  tilescope_search: {words(text: string): string[]; fit(words: string[], label: string): boolean};
  tilescope_markup: {breakable(text: any): any; Markup: any; Store: any};
  tilescopeAxis: AxisSpace;
  tilescopeChart: ChartSpace;
  /** Missing until the graph of operations is opened. */
  tilescopeGraph?: GraphSpace;
  tilescope_tables: object;
  tilescopeTrace: TraceSpace;
  /** Dash brings it; the scripts use a few functions. */
  React: any;
}

/** What stands above a saved picture. */
interface PictureHead {
  title: string;
  axes: string;
}

interface FramePage {
  name: string;
  path: string;
  title: string;
  icon: string;
}

interface FrameReport {
  id: string;
  label: string;
  /** The label in menus, which names the state unless the report is complete. */
  choice: string;
  /** The state in some words. */
  state: string;
  is_complete: boolean;
  is_damaged: boolean;
}

/** What the server says of the frame (webapp/frame.py). */
interface FrameData {
  pages: FramePage[];
  reports: FrameReport[];
  isApp: boolean;
  /** Whether there are more reports than those. */
  isCut: boolean;
}

/** What the scripts of the frame share; those of the app are missing on the home page. */
interface TileScope {
  // frame.js
  frame: FrameData;
  newestReport(): string;
  isKnown(report: string): boolean;
  refreshReports(): Promise<void>;
  // view.js
  changeView(changes: Record<string, string>, push: boolean): void;
  // router.js
  go(address: string): void;
  mounted(name: string): void;
  setPlaces(places: Record<string, Record<string, string>>): void;
  // selection.js
  showSelection(): void;
  // palette.js
  openPalette(): void;
  // home.js
  noteRecent(report: FrameReport, candidate?: FrameReport): void;
}

interface HTMLElement {
  /** Of the element that holds the trace. */
  viewer?: TraceViewer;
}

/** What moves along an axis: a component brings the first part, `motion` the second. */
interface AxisView extends AxisMotion {
  extent: TraceRange | null;
  range: TraceRange;
  /** Where a motion leads, from where, and since when, in milliseconds. */
  goal?: (TraceRange & {from: TraceRange; since: number}) | null;
  /** Of the axis on the screen, in pixels. */
  readonly width: number;
  /** Positions that are shown at least. */
  shortest?: number;
  /** Where the pointer was last. */
  last?: TracePoint | null;
  draw(): void;
  hover(at: TracePoint | null): void;
  request(): void;
  changed(): void;
  mark(from: number, to: number): void;
  click(at: TracePoint, event?: PointerEvent): void;
  focusSelection(): void;
}

interface AxisMotion {
  bounded(start: number, end: number): TraceRange;
  moveTo(start: number, end: number, isSmooth?: boolean): void;
  advance(): void;
  target(): TraceRange;
  zoomAt(factor: number, part: number, isSmooth?: boolean): void;
  pan(part: number, isSmooth?: boolean): void;
  showAll(): void;
  positionAt(x: number): number;
  pixelOf(position: number): number;
  pointer(): number;
}

type AxisColours = {surface: string; font: string};

interface AxisStrip {
  element: HTMLElement;
  view: AxisView;
  forget(): void;
  paint(colours: AxisColours, ratio: number): void;
}

interface AxisStripOptions {
  /** In pixels. */
  height: number;
  name(position: number): string;
  paintWhole(
    context: CanvasRenderingContext2D, width: number, height: number, colours: any, ratio: number,
  ): void;
}

/** What components with an axis share. */
interface AxisSpace {
  tool(parent: HTMLElement, text: string, title: string, act: () => void): void;
  motion: AxisMotion;
  Strip: new (element: HTMLElement, view: AxisView, options: AxisStripOptions) => AxisStrip;
  isTyping(target: Element): boolean;
  connectWheel(view: AxisView, element: HTMLElement, place: (event: MouseEvent) => TracePoint): void;
  connectDrag(view: AxisView, element: HTMLElement, place: (event: MouseEvent) => TracePoint, options: {
    isInside(event: PointerEvent, at: TracePoint): boolean;
    isRange(event: PointerEvent, at: TracePoint): boolean;
    /** What `panned` gets together with the pixels down since then. */
    begin?(): any;
    panned?(begun: any, down: number): void;
  }): void;
  motionKeys(view: AxisView): Record<string, (event?: KeyboardEvent) => void>;
  pressKey(keys: Record<string, (event?: KeyboardEvent) => void>, event: KeyboardEvent): boolean;
  make<K extends keyof HTMLElementTagNameMap>(
    tag: K, className: string, parent?: Element,
  ): HTMLElementTagNameMap[K];
  count(value: number): string;
  plural(value: number, one: string, many: string): string;
  ticks(start: number, end: number, pixels: number, spacing: number): {step: number; ticks: number[]};
  byteTicks(highest: number, most: number): number[];
  tickLabel(position: number, step: number): string;
  prepare(
    canvas: HTMLCanvasElement, width: number, height: number, ratio: number,
  ): CanvasRenderingContext2D;
}

interface ChartColours extends AxisColours {
  ink: string;
  soft: string;
  line: string;
  edge: string;
  page: string;
  accent: string;
  shade: string;
  match: string;
  border: string;
  gap: string;
  /** Ends of the scale of a map. */
  scaleLow: string;
  scaleHigh: string;
}

/** One report's part of an answer; places and items are ascending and equally long. */
interface ChartSide {
  name: string;
  colour: string;
  n_shown: number;
  n_items: number;
  highest_bytes: number;
  capacity_bytes: number;
  beside_bytes: number;
  series: {label: string; colour: string; values: Float64Array}[];
  total: Float64Array;
  /** Sum of all series. */
  stack: Float64Array;
  place: Int32Array;
  item: Int32Array;
  n_matches: number;
  n_found: number | null;
  matches: {height: Float64Array; place: Int32Array; item: Int32Array};
  /** Half-open places at which the selected variable lives. */
  lives?: [number, number][];
}

interface ChartData extends TraceRange {
  n_columns: number;
  n_places: number;
  /** 0 where it is not known, or two reports differ. */
  tiles_per_ipu?: number;
  sides: ChartSide[];
  /** The question that this answers. */
  asked?: string;
}

interface ChartLegendEntry {
  label: string;
  colour: string;
  style?: string;
}

interface ChartTable {
  columns: string[];
  rows: (string | number)[][];
}

/** Blocks of memory on a tile, equally long columns. */
interface ChartBlocks {
  offset: ArrayLike<number>;
  size: ArrayLike<number>;
  start: ArrayLike<number>;
  end: ArrayLike<number>;
}

interface ChartLives extends ChartBlocks {
  tile_id: number;
  n_steps: number;
  n_blocks: number;
  capacity_bytes: number;
  non_interleaved_bytes: number;
  unplaced_bytes: number;
  /** Of the tile, of two reports on either side. */
  highest_bytes: number;
  /** Of two reports, the places of the steps of this side and of the other one. */
  own: Int32Array;
  other: Int32Array;
  n_places: number;
  /** First step of every block and the one after its last, where `start` and `end` are places. */
  first: Int32Array;
  last: Int32Array;
  names: string[];
  categories: {label: string; colour: string}[];
  name: Int32Array;
  category: Int32Array;
  /** The highest address in use from a step on. */
  heights: {step: Int32Array; top: Float64Array};
  asked?: string;
}

interface ChartMap {
  title: string;
  n_ipus: number;
  tiles_per_ipu: number;
  n_rows: number;
  n_columns: number;
  highest_bytes: number;
  /** Whether the values are the candidate's minus the baseline's. */
  is_change: boolean;
  values: Float64Array;
  row: Int32Array;
  column: Int32Array;
  /** Tile of an IPU by its place, counted along the rows. */
  tileAt: Map<number, number>;
}

/** What a plot brings besides its frame. */
interface ChartPlotParts {
  viewChanged(before: Record<string, string>): void;
  hover(at: TracePoint | null): void;
  request(): Promise<void>;
  click(at: TracePoint, event?: PointerEvent): void;
  /** Selects what is at a place; null selects nothing. */
  pick(place: number | null, isMore: boolean): void | Promise<void>;
  pickRange(range: TraceRange): void;
  selectedRange(): TraceRange | null;
  /** Where the cursor starts; null for the end of the axis. */
  cursorStart(): number | null;
  /** Says what is at a place; once it is known, it can be picked. */
  tell(place: number): void | Promise<void>;
  paintContent(context: CanvasRenderingContext2D, area: TraceBox, colours: ChartColours, ratio: number): void;
  paintWhole(
    context: CanvasRenderingContext2D, width: number, height: number, colours: ChartColours, ratio: number,
  ): void;
  writeNote(): void;
  table(): ChartTable;
}

/** What the charts of Memory and Liveness share. */
interface ChartSpace {
  LEFT: number;
  RIGHT: number;
  /** Plots by page and graph. */
  kinds: Record<string, (root: HTMLElement) => any>;
  Frame: new (root: HTMLElement, options: {noun: string; label: string; fileName: string; axes: string}) => any;
  SeriesPlot: new (root: HTMLElement, options: object) => any;
  LivesPlot: new (root: HTMLElement, options: object) => any;
  MapPlot: new (root: HTMLElement, options: object) => any;
  unpackLives(buffer: ArrayBuffer): ChartLives;
  blockAt(blocks: ChartBlocks, step: number, address: number): number;
  gapAt(blocks: ChartBlocks, step: number, address: number): {
    from: number; to: number; below: number; above: number;
  };
  unpackMap(buffer: ArrayBuffer): ChartMap;
  layMap(
    size: {n_ipus: number; n_rows: number; n_columns: number}, width: number, height: number,
  ): {across: number; down: number; cell: number; height: number};
  /** Levels of the colour scale of a map. */
  LEVELS: number;
  /** A colour between two, all as #rrggbb. */
  mixed(from: string, to: string, part: number): string;
  levelOf(value: number, highest: number, levels?: number): number;
  signedBytes(size: number): string;
  stepText(lives: {own: Int32Array; other: Int32Array; side: number}, place: number): string;
  readColours(element: Element): ChartColours;
  ask(path: string, query?: Record<string, any>): Promise<Response>;
  answer(plot: any, read: () => Promise<object>): Promise<void>;
  header(buffer: ArrayBuffer): {header: any; take(kind: any, n: number): any};
  unpackChart(buffer: ArrayBuffer): ChartData;
  lowerBound(sorted: ArrayLike<number>, value: number): number;
  indexOf(sorted: ArrayLike<number>, value: number): number;
  nearest(sorted: ArrayLike<number>, value: number): number;
  ranges(text: string): [number, number][];
  listOf(numbers: Iterable<number>): string;
  cell(value: unknown): string;
  csv(table: ChartTable): string;
  savePicture(plot: any, name: string, about: PictureHead): void;
  saveTable(table: ChartTable, name: string): void;
}

/** Half-open, in cycles. */
interface TraceRange {
  start: number;
  end: number;
}

/** In CSS pixels. */
interface TracePoint {
  x: number;
  y: number;
}

interface TraceBox extends TracePoint {
  width: number;
  height: number;
}

interface TraceKind {
  number: number;
  name: string;
  label: string;
  letter: string;
}

/** Bars of one lane, sorted by start; starts count from the start of their answer, in cycles. */
interface TraceLane {
  level: number;
  /** Bit `k` is set if a bar of kind `k` is among them. */
  kinds: number;
  n: number;
  start: Float64Array;
  duration: Float64Array;
  /** Row of the names; negative where several slices are merged. */
  name: Int32Array;
  /** Slices that a bar stands for. */
  count: Int32Array;
  kind: Uint8Array;
  /** Where a bar of several slices has its shares in `share`; -1 for one slice. */
  mix: Int32Array;
  /** Shares of all kinds in the cycles of a bar, in 255ths. */
  share: Uint8Array;
  /** Numbers of kinds in a row of `share`. */
  nKinds: number;
  /** Of bars of several slices, in the order of their shares: name and cycles of the longest. */
  longestName: Int32Array;
  longestCycles: Float32Array;
  /** Place below the top of its group, and height: 0 where nothing is to be seen, in pixels. */
  top: number;
  height: number;
  /** See bake.js. */
  prepared?: TracePrepared;
  baked?: TraceBitmap;
}

/** The longest step of every pixel: name and bar are -1 where there is none. */
interface TraceLongest {
  cycles: Float32Array;
  name: Int32Array;
  bar: Int32Array;
}

/** A wait of an IPU in a sync for the one that arrives last, in cycles of each. */
interface TraceWait {
  ipu_id: number;
  step_id: number;
  start_cycle: number;
  end_cycle: number;
  late_ipu_id: number;
  late_cycle: number;
  late_step_id: number | null;
  late_step: string;
}

/** A note where it is; null where this report does not have its steps. */
interface TraceNote {
  note_id: string;
  text: string;
  ipu_id: number;
  start_cycle: number | null;
  end_cycle: number | null;
  missing: string;
  is_shared: boolean;
}

interface TraceFlag {
  note: TraceNote;
  from: number;
  to: number;
  /** Pixels of its text; 0 where another is in its place. */
  room: number;
}

/** A part of the critical path. */
interface TraceSpan {
  ipu_id: number;
  start_cycle: number;
  end_cycle: number;
}

/** Names of the longest steps, and the pixel of the answer where the screen begins. */
interface TraceNamed {
  key: string;
  cell: number;
  /** First cycle of the range, and when they were chosen, in milliseconds. */
  start: number;
  at: number;
  first: number;
  columns: TraceLongest;
  named: {pixel: number; x: number; room: number; text: string; line: number}[];
}

/** The levels of a group that are too narrow to be drawn, and where they are in it. */
interface TraceNarrow {
  level: number;
  top: number;
  height: number;
  data: TraceData;
  group: TraceGroup;
}

/** A picture of an answer, a column for `cell` cycles. */
interface TraceBitmap {
  canvas: HTMLCanvasElement;
  /** In pixels of the screen. */
  height: number;
  key: unknown[];
  cell: number;
}

/** What frames need of a lane: running sums have one value more than the lane has bars. */
interface TracePrepared {
  slices: Float64Array;
  cycles: Float64Array;
  wideCycles: Float64Array;
  /** Bars of single slices that are at least two pixels of the answer wide. */
  wide: Int32Array;
  byKind: {kind: number; wide: Int32Array}[];
}

/** The lanes of one track of an IPU. */
interface TraceLanes {
  key: string;
  ipu: number;
  track: number;
  lanes: TraceLane[];
  /** All steps, on one lane. */
  steps?: TraceLane | null;
}

/** Lanes with the range and resolution that they were asked for. */
interface TraceData extends TraceLanes, TraceRange {
  /** Tiles with rows of their own. */
  tiles: number[];
  perPixel: number;
  how: string;
  /** Set once the report has grown since. */
  isStale?: boolean;
  /** Levels of names. */
  levels: number;
  /** Cycles of every kind of step in every pixel; null for a tile. */
  columns: Float32Array | null;
  bitmap?: TraceBitmap;
  /** By the first level that is looked at. */
  longest?: Map<number, {key: string; cell: number; columns: TraceLongest; most: number}>;
  named?: TraceNamed;
  longestBitmap?: TraceBitmap;
}

interface TraceAnswer extends TraceRange {
  pixels: number;
  perPixel: number;
  groups: Map<string, TraceLanes>;
}

/** A group as it is laid out. */
interface TraceGroup extends TraceForm {
  rows: TraceRow[];
  /** The row of activity, if it has one. */
  share?: TraceRow;
  key: string;
  ipu: number;
  track: number;
  /** Of two reports, 0 for the baseline and 1 for the candidate. */
  side: number;
  isClosed: boolean;
  how: string;
  top: number;
  height: number;
  name: string;
  /** Stays at the top while others scroll. */
  isPinned: boolean;
  /** Of a tile's row. */
  tile?: number;
}

/** What the heights of a group's rows depend on. */
interface TraceForm {
  form: 'open' | 'closed' | 'strip';
  levels: number;
  tiles: number;
  hasActivity: boolean;
  /** Whether a row says where the candidate takes longer. */
  hasDelta?: boolean;
}

/** Heights of the rows of every type, in pixels. */
interface TraceHeights {
  run: number;
  /** Of the names of the longest steps. */
  names: number;
  delta: number;
  step: number;
  activity: number;
  strip: number;
}

/** A row of a group: its type, its level if it has one, and its place in the group. */
interface TraceRow {
  type: string;
  level: number | undefined;
  top: number;
  height: number;
}

interface TraceRun {
  run_id: number;
  start_cycle: number;
  end_cycle: number;
}

interface TraceTrack {
  ipu_id: number;
  track: number;
  side: number;
}

interface TraceSlice {
  name?: string;
  kind?: string;
  /** Null for a group or a run. */
  step_id: number | null;
  ipu_id: number;
  track: number;
  level: number;
  start_cycle: number;
  end_cycle: number;
  side?: number;
}

interface TraceColours {
  kinds: string[];
  onKinds: string[];
  groups: string[];
  /** Patterns by pixels of the screen a pixel of the page. */
  hatches?: Map<number, CanvasPattern>;
  ink: string;
  soft: string;
  line: string;
  surface: string;
  /** Of what takes more, and less, in the candidate. */
  more: string;
  less: string;
  accent: string;
  shade: string;
  match: string;
  font: string;
}

interface TraceScene extends TraceRange {
  colours: TraceColours;
  ratio: number;
  source: TraceNames;
  /** What follows the first number of the ruler. */
  unit: string;
  matches: Uint8Array | null;
  kinds: TraceKind[];
  /** Bit `k` is set if kind `k` is hidden. */
  hidden: number;
  /** Cycles a pixel. */
  cell: number;
  /** Whether the scale is changing. */
  isMoving: boolean;
  /** Whom a wait between two cycles is for, as a text for some room. */
  nameOfWait?(from: number, to: number, room: number): string;
}

interface TraceNames {
  labels: string[];
  parents: number[];
  /** Cycles by the name of a run. */
  lengths?: Map<string, number>;
  texts?: TraceLabels;
  /** Tint of every name as a group. */
  tints?: Uint8Array;
  /** Of runs, by name and room. */
  runNames?: Map<string, string>;
  /** Levels above every name. */
  depths?: Uint8Array;
  label(id: number): string;
}

interface TraceSource extends TraceNames {
  json(what: string, query?: object): Promise<any>;
  report: string;
  notes(what: string, query: object, method?: string): Promise<{notes: TraceNote[]; shared: string}>;
  window(query: object, signal?: AbortSignal): Promise<TraceAnswer>;
  loadNames(): Promise<void>;
  label(id: number): string;
  path(id: number): string;
  matches(text: string): Uint8Array;
}

/** What is drawn of names, by row of the names and room in pixels. */
interface TraceLabels {
  text(id: number, room: number): string;
}

interface TraceOverview extends AxisStrip {
  take(data: TraceAnswer): void;
}

interface TraceState {
  view: string;
  ipus: Set<number> | null;
  closed: Set<number>;
  /** Of many IPUs, those that are no strips. */
  opened: Set<number>;
  find: string;
  /** IPU, track, level and cycle of the selected slice, joined by dots. */
  at: string;
  mark: TraceRange | null;
  /** Kept to be compared. */
  marks: TraceRange[];
  /** Of the address, as the server packs them. */
  notes: string;
  tiles: number[];
  /** Keys of the pinned rows. */
  pins: string[];
}

/** What the files of the viewer's parts add to it. */
interface TraceViewerParts extends AxisMotion {
  // data.js
  readonly cyclesPerPixel: number;
  covers(data: TraceRange | null): boolean;
  best(group: {key: string; how: string}): TraceData | null;
  isGood(group: TraceGroup): boolean;
  request(): Promise<void>;
  take(answer: TraceAnswer, collapsed: number[], view: string, side: number): void;
  loadOverview(): Promise<void>;
  // find.js
  click(at: TracePoint, event?: PointerEvent): Promise<void>;
  loadSelected(): Promise<void>;
  selectOnAllPages(): void;
  goToStep(): Promise<void>;
  select(one: {ipu_id: number; track: number; name: string; start_cycle: number; side?: number}): void;
  search(text: string): void;
  updateMatches(): void;
  countMatches(): Promise<void>;
  visibleOnly(side?: number): {ipus: string; hide: string} | null;
  writeMatch(): void;
  findNext(direction: 'next' | 'previous'): Promise<void>;
  findFrom(direction: 'next' | 'previous'): Promise<void>;
  // motion.js
  readonly width: number;
  focusSelection(): void;
  clear(): void;
  mark(from: number, to: number): void;
  isFolded(ipu: number): boolean;
  snapped(cycle: number): number;
  room(): number;
  arrange(): void;
  groupAt(y: number): TraceGroup | undefined;
  visibleGroups(around: boolean): TraceGroup[];
  laneAt(y: number): {group: TraceGroup; level: number; lane: TraceLane; data: TraceData} | null;
  // scene.js
  draw(): void;
  paint(): void;
  paintOn(canvas: HTMLCanvasElement, ratio: number): void;
  noteMotion(): boolean;
  paintSelection(context: CanvasRenderingContext2D, width: number, height: number): void;
  writeNoteSoon(): void;
  writeNote(): void;
  contents(lane: TraceLane, i: number): string;
  sharesAt(at: TracePoint | null): TraceShares | null;
  hoverShares(shares: TraceShares, at: TracePoint): void;
  showTooltip(title: string, colour: string, lines: string[], at: TracePoint): void;
  hover(at: TracePoint | null): void;
  say(text: string, isError?: boolean): void;
  // delta.js
  bothSides(group: TraceGroup): TraceData[] | null;
  deltaOf(group: TraceGroup): Float32Array | null;
  paintDelta(context: CanvasRenderingContext2D, group: TraceGroup, row: TraceRow, y: number, scene: TraceScene): void;
  deltaAt(at: TracePoint | null): string | null;
  // notes.js
  readonly chosenRange: (TraceRange & {ipu: number}) | null;
  loadNotes(): Promise<void>;
  takeNotes(asked: Promise<{notes: TraceNote[]; shared: string}>): Promise<void>;
  askNote(): void;
  removeNote(note: TraceNote): void;
  keepMark(): void;
  paintMarks(context: CanvasRenderingContext2D, width: number, height: number): void;
  paintNotes(context: CanvasRenderingContext2D, width: number, height: number): void;
  noteAt(at: TracePoint | null): TraceNote | null;
  hoverNote(note: TraceNote, at: TracePoint): void;
  clickNote(note: TraceNote, isRemoval: boolean): void;
  // waits.js
  requestWaits(): void;
  hasWaits(): boolean;
  loadWaits(): Promise<void>;
  groupOf(ipu: number): TraceGroup | undefined;
  paintWaits(context: CanvasRenderingContext2D, width: number, height: number): void;
  paintCritical(context: CanvasRenderingContext2D, group: TraceGroup, y: number, scene: TraceScene): void;
  step(direction: 'next' | 'previous' | 'up' | 'down'): void;
  criticalShare(ipu: number, start: number, cycles: number): number | null;
  followWait(direction: 'forth' | 'back'): void;
  waitLevel(wait: TraceWait): number;
  // longest.js
  boxOf(group: TraceGroup): TraceNarrow | null;
  columnsOf(box: TraceNarrow): {columns: TraceLongest; most: number};
  paintLongest(context: CanvasRenderingContext2D, box: TraceNarrow, y: number, scene: TraceScene): void;
  namesOf(group: TraceGroup): TraceNamed | null;
  paintNames(context: CanvasRenderingContext2D, group: TraceGroup, row: TraceRow, y: number, scene: TraceScene): void;
  nameAt(at: TracePoint | null): {box: TraceNarrow; pixel: number; columns: TraceLongest} | null;
  longestAt(at: TracePoint | null): {box: TraceNarrow; pixel: number; columns: TraceLongest} | null;
  hoverLongest(found: {box: TraceNarrow; pixel: number; columns: TraceLongest}, at: TracePoint): void;
  goToLongest(found: {box: TraceNarrow; pixel: number; columns: TraceLongest}): Promise<void>;
  // kinds.js
  paintLegend(): void;
  updateLegend(): void;
  writeShares(): void;
  notePresent(lanes: TraceLane[]): void;
  // pins.js
  readonly pinnedBottom: number;
  screenTop(row: TraceGroup): number;
  togglePin(key: string): void;
  pinSelected(): void;
  rowOf(slice: {ipu_id: number; track: number; level: number; side?: number}): {row: TraceGroup; lane: TraceRow} | null;
  reveal(slice: {ipu_id: number; track: number; level: number; side?: number}): void;
  scrollToUnseen(): void;
  paintGutter(): void;
  paintPin(row: TraceGroup, gutter: HTMLElement, top: number): void;
  paintGroupName(row: TraceGroup, gutter: HTMLElement, top: number): void;
  toggleGroup(group: {ipu: number}): void;
  // refresh.js
  refresh(view: Record<string, string>): Promise<void>;
}

/** What a pixel consists of: cycles by kind. */
interface TraceShares {
  group: TraceGroup;
  sums: Float64Array;
  cycles: number;
}

interface TraceViewer extends TraceViewerParts {
  /** Whether groups are too many for rows of their own. */
  hasStrips?: boolean;
  /** Levels by group and view, as far as they are known. */
  levels: Map<string, number>;
  heights?: TraceHeights;
  /** Whether marks are not to snap to edges of slices. */
  isSnapOff?: boolean;
  /** A slice that is to be scrolled to once its group is loaded. */
  /** By the key of a row. */
  deltas: Map<string, {key: number[]; data: TraceData[]; columns: Float32Array}>;
  notes: TraceNote[];
  flags?: TraceFlag[];
  dialog?: HTMLDialogElement;
  waits: TraceWait[];
  /** The window that they are of. */
  waitsKey: string;
  waitsLater?: ReturnType<typeof setTimeout>;
  /** By run. */
  critical: Map<number, TraceSpan[]>;
  /** Of the canvas, for the widths of names. */
  context?: CanvasRenderingContext2D;
  /** The first level of every group that is not resolved. */
  unresolved?: Map<string, number>;
  unseen?: {ipu_id: number; track: number; level: number; side?: number} | null;
  /** Pixels for the rows that the user chose. */
  split?: number;
  /** Bit `k` is set if the report has steps of kind `k`. */
  present: number;
  chips?: Map<number, HTMLElement>;
  sharesLater?: ReturnType<typeof setTimeout> | 0;
  root: HTMLElement;
  overviewBox: HTMLElement;
  scroller: HTMLElement;
  canvas: HTMLCanvasElement;
  spacer: HTMLElement;
  tooltip: HTMLElement;
  message: HTMLElement;
  note: HTMLElement;
  legend: HTMLElement;
  sticky: HTMLElement;
  gutter?: HTMLElement;
  pinnedGutter?: HTMLElement;
  gutterKey?: string;
  overview: TraceOverview;
  colours: TraceColours | null;
  kinds: TraceKind[];
  /** Bit `k` is set if kind `k` is hidden. */
  hidden: number;
  hertz: number;
  tracks: TraceTrack[];
  range: TraceRange;
  /** Where a motion leads, from where, and since when, in milliseconds. */
  goal?: (TraceRange & {from: TraceRange; since: number}) | null;
  extent: TraceRange | null;
  state: TraceState;
  address: Record<string, string>;
  report: string | null;
  /** Whether a click asked for the selected slice, and what it selects on all pages. */
  isChosen?: boolean;
  chosen?: string;
  /** What two reports are aligned by; nothing for one report. */
  align: string;
  /** Number of a step whose first execution is to be shown. */
  wantedStep: string | undefined;
  missing: string;
  /** What is shown of a report at first. */
  opening: TraceRange;
  /** Of the baseline. */
  runs?: TraceRun[];
  /** Of the baseline. */
  source: TraceSource | null;
  sources: TraceSource[];
  /** Reports and alignment that are shown. */
  pair: string;
  groups: TraceGroup[];
  data: Map<string, TraceData>;
  whole: Map<string, TraceData>;
  /** By side and row of the names: 1 where the search matches. */
  matches: Uint8Array[] | null;
  selected: TraceSlice | null;
  found?: string;
  /** The match that was last gone to: what was looked for, where it was found, its number of how many. */
  match: {find: string; shown: string; at: string; number: number; n: number} | null;
  /** How many matches there are; unknown until the server says so. */
  total: number | undefined;
  /** The requests for matches, one after the other. */
  steps?: Promise<void>;
  last?: TracePoint | null;
  /** The requests under way: `serves` says whether they bring what is missing now. */
  asking: {stop: AbortController; serves(viewer: TraceViewer): boolean} | null;
  failed: string;
  frame?: number;
  frames: number[];
  /** Of the page, while a frame is painted. */
  measured?: {width: number; height: number; scroll: number} | null;
  namesLater?: ReturnType<typeof setTimeout>;
  noteLater?: ReturnType<typeof setTimeout> | 0;
  /** Cycles a pixel of the last frame, and the frame after motion. */
  scale?: number;
  still?: ReturnType<typeof setTimeout>;
  firstPaint?: number;
  slices?: number;
  bars?: number;
  height?: number;
  tab?: string;
  quiet?: ReturnType<typeof setTimeout>;
  reset(report: string | null, other: string, align: string): void;
  isShown(): boolean;
  show(view: Record<string, string>): Promise<void>;
  apply(view: Record<string, string>, changed: (name: string) => boolean): void;
  open(view: Record<string, string>): Promise<void>;
  follow(view: Record<string, string>): void;
  rangeText(): string;
  changed(tab?: string): void;
  hide(text: string): void;
}

/** What the scripts of the trace share. */
interface TraceSpace {
  QUIET_MS: number;
  OVERVIEW_ROWS: number;
  MOST_GROUPS: number;
  KINDS: number;
  rowHeights(groups: TraceForm[], room: number): TraceHeights;
  deltaColumns(
    sides: ({columns: Float32Array | null; start: number; perPixel: number} | null)[],
    place: {start: number; cell: number; pixels: number},
  ): Float32Array;
  marksOf(text: string): TraceRange[];
  marksText(marks: TraceRange[]): string;
  toggledMark(marks: TraceRange[], mark: TraceRange): TraceRange[];
  noteFlags(notes: TraceNote[], range: TraceRange, width: number, measure: (text: string) => number): TraceFlag[];
  waitAt(waits: TraceWait[], ipu: number, cycle: number): TraceWait | null;
  shownWaits(waits: TraceWait[], range: TraceRange, perPixel: number, selected: TraceSlice | null): TraceWait[];
  waitText(wait: TraceWait, room: number, measure: (text: string) => number): string;
  guessedWidth(): number;
  openingRange(extent: {
    start_cycle: number; end_cycle: number; n_entries: number; runs: TraceRun[]; tracks: object[];
  }, width: number): TraceRange;
  runWords(range: TraceRange, runs: TraceRun[]): string;
  paintRuns(
    context: CanvasRenderingContext2D, viewer: {extent: TraceRange; opening: TraceRange; runs?: TraceRun[]}, box: TraceBox,
    colours: TraceColours,
  ): void;
  rowsOf(group: TraceForm, heights: TraceHeights): TraceRow[];
  placeLanes(lanes: TraceLane[], rows: TraceRow[]): void;
  shareColumns(lanes: TraceLane[], pixels: number, perPixel: number): Float32Array;
  columnSums(columns: Float32Array, from: number, to: number): Float64Array;
  shareRectangles(columns: Float32Array, perPixel: number, height: number, hidden: number): number[][][];
  paintShares(context: CanvasRenderingContext2D, data: TraceData, box: TraceBox, scene: TraceScene): void;
  shareText(share: number): string;
  scrollTo(top: number, bottom: number, scroll: number, first: number, last: number): number;
  tileLevel(tile: number): number;
  WAIT: number;
  STEPS_LEVEL: number;
  textWidth(context: CanvasRenderingContext2D, text: string): number;
  unresolvedLevel(shares: number[], before: number): number;
  depthsOf(source: TraceNames): Uint8Array;
  longestColumns(
    lane: TraceLane, options: {level: number; depths: Uint8Array; cell: number; pixels: number; hidden: number},
  ): TraceLongest;
  lastLevels(path: string, room: number, measure: (text: string) => number): string;
  namedColumns(
    columns: TraceLongest, from: number, to: number,
    options: {
      width: number; lines: number; most: number; textOf: (id: number) => string; measure: (text: string) => number;
    },
  ): TraceNamed['named'];
  prepareLane(lane: TraceLane, perPixel: number): TracePrepared;
  firstOf(lane: TraceLane, list: Int32Array, cycle: number): number;
  seenOf(data: TraceRange & {perPixel: number}, lane: TraceLane, range: TraceRange): {bars: number; slices: number; resolved: number};
  narrowColumns(lane: TraceLane, perPixel: number, cell: number, pixels: number): Int32Array;
  isSameScale(a: number, b: number): boolean;
  pixelsOf(data: TraceRange, cell: number): number;
  bitmapOf(
    kept: TraceBitmap | undefined, data: TraceRange, wanted: {height: number; key: unknown[]; cell: number; isMoving: boolean},
    paint: (context: CanvasRenderingContext2D, pixels: number) => void,
  ): TraceBitmap;
  resampled(columns: Float32Array, perPixel: number, cell: number, pixels: number): Float32Array;
  packedColour(colour: string, opacity?: number): number;
  isHatched(x: number, y: number): boolean;
  fillOf(context: CanvasRenderingContext2D, kind: number, scene: {colours: TraceColours; ratio: number}): string | CanvasPattern;
  bakedPixels(
    lane: TraceLane, owner: Int32Array, height: number,
    scene: {colours: TraceColours; hidden: number; matches: Uint8Array | null; source: TraceNames},
  ): Uint32Array;
  paintBaked(
    context: CanvasRenderingContext2D, data: TraceRange & {perPixel: number}, lane: TraceLane, box: TraceBox, scene: TraceScene,
  ): void;
  stretch(
    context: CanvasRenderingContext2D, bitmap: TraceBitmap, data: TraceRange, box: TraceBox, scene: TraceScene,
  ): void;
  tintOf(source: TraceNames, id: number): number;
  firstEndingAfter(lane: TraceLane, cycle: number): number;
  firstBeginningAt(lane: TraceLane, cycle: number): number;
  isFine(perPixel: number, wanted: number): boolean;
  windowOf(range: TraceRange, extent: TraceRange, wanted: number, around: number): TraceRange & {pixels: number; perPixel: number};
  connectSplitter(viewer: TraceViewer): void;
  GAP: number;
  RULER: number;
  isStarted?: boolean;
  early?: {
    report: string;
    source: TraceSource;
    names: Promise<void>;
    extent: Promise<any>;
    answer?: TraceAnswer;
  } | null;
  parts: (Partial<TraceViewerParts> & ThisType<TraceViewer>)[];
  Source: new (
    report: string, pair?: {report: string; with: string; align: string; side: number},
  ) => TraceSource;
  /** A row of the difference flame as `/api/trace-pair/…/flame` gives it. */
  flameShade(row: {baseline_cycles: number; candidate_cycles: number}): number;
  signed(value: number): string;
  changeText(row: {
    verdict: string; baseline_cycles: number; candidate_cycles: number; delta_cycles: number;
  }): string;
  differenceIn(root: HTMLElement): {show(view: Record<string, string>): Promise<void>};
  distinctions(labels: string[], parents: number[]): {near: Int32Array; unique: Int32Array};
  ALONE: {unique: number; near: number};
  labelText(name: string, parent: string, from: {unique: number; near: number}, room: number, measure: (text: string) => number): string;
  Labels: new (source: TraceNames, measure: (text: string) => number) => TraceLabels;
  labelsOf(source: TraceNames, context: CanvasRenderingContext2D): TraceLabels;
  hiddenKinds(text: string, kinds: TraceKind[]): number;
  kindNames(bits: number, kinds: TraceKind[]): string[];
  tilesOf(text: string): number[];
  tileKey(group: string, tile: number): string;
  pinsOf(text: string): string[];
  pinnedFirst(rows: TraceGroup[], pins: string[], most: number): TraceGroup[];
  tileOf(level: number): number;
  viewOf(view: Record<string, string>): string;
  picture(viewer: TraceViewer): HTMLCanvasElement;
  savePicture(viewer: TraceViewer): void;
  SIDES: string[];
  alignment(view: Record<string, string>): string;
  sourcesOf(report: string, other: string, align: string): TraceSource[];
  groupKey(ipu: number, track: number, side: number): string;
  noteRuns(
    sources: TraceSource[],
    extents: {runs: {name: string; start_cycle: number; end_cycle: number; own_cycles?: number}[]}[],
  ): void;
  runText(source: {lengths?: Map<string, number>}, name: string): string;
  axisUnit(align: string): string;
  rangeWords(range: TraceRange, align: string, sources: TraceSource[], hertz: number): string;
  tracksOf(extents: {tracks: {ipu_id: number; track: number}[]}[]): TraceTrack[];
  Overview: new (element: HTMLElement, viewer: TraceViewer) => TraceOverview;
  viewerIn(root: HTMLElement): TraceViewer;
  connectInput(viewer: TraceViewer): void;
  writeRows(viewer: TraceViewer): void;
  make<K extends keyof HTMLElementTagNameMap>(
    tag: K, className: string, parent?: Element,
  ): HTMLElementTagNameMap[K];
  count(value: number): string;
  plural(value: number, one: string, many: string): string;
  seconds(cycles: number, hertz: number): string;
  ticks(start: number, end: number, pixels: number, spacing: number): {step: number; ticks: number[]};
  tickLabel(cycle: number, step: number): string;
  readColours(element: Element): TraceColours;
  edgeNear(lane: TraceLane, cycle: number, reach: number): number;
  barAt(lane: TraceLane, cycle: number, reach: number): number;
  paintLane(
    context: CanvasRenderingContext2D, data: TraceRange & {perPixel: number}, lane: TraceLane, box: TraceBox,
    scene: TraceScene,
  ): [number, number];
  paintRuler(
    context: CanvasRenderingContext2D, box: {x: number; width: number}, scene: TraceScene,
  ): void;
  paintGrid(context: CanvasRenderingContext2D, box: TraceBox, scene: TraceScene): void;
  prepare(
    canvas: HTMLCanvasElement, width: number, height: number, ratio: number,
  ): CanvasRenderingContext2D;
}

/** What operations cost in one report. */
interface GraphFigures {
  cycles: number;
  code_bytes: number;
  memory_bytes: number;
}

interface GraphBox {
  key: string;
  label: string;
  place: string;
  around: string[];
  is_group: boolean;
  operation: string;
  n_operations: number;
  baseline: GraphFigures | null;
  candidate: GraphFigures | null;
  training_pass: string;
  /** Centre in box widths, and row. */
  x: number;
  row: number;
}

interface GraphEdge {
  source: number;
  target: number;
  baseline_bytes: number | null;
  candidate_bytes: number | null;
  is_backward: boolean;
  route: [number, number][];
  /** By point of the route: place between the columns, last row of the first one, lane. */
  folds: [number, number, number, number][];
}

interface GraphMetric {
  label: string;
  /** Unit behind the text of a value. */
  noun: string;
  of(side: GraphFigures): number;
  text(value: number): string;
}

/** What the scripts of the graph of operations share. */
interface GraphSpace {
  METRICS: Record<string, GraphMetric>;
  PASSES: Record<string, string>;
  passColours(element: Element, none: string): Record<string, string>;
  figures(box: GraphBox, metric: string): {before: number | null; after: number | null; delta: number; most: number};
  inkOn(colour: string): string;
  shadeOf(delta: number, most: number): number;
  graphColours(element: Element): any;
  fitted(text: string, width: number, measure: (text: string) => number): string;
  fittedLabel(text: string, width: number, measure: (text: string) => number): string;
  at(x: number, row: number): TracePoint;
  size(graph: {width: number; n_rows: number}): {width: number; height: number};
  boxAt(boxes: GraphBox[], at: TracePoint): number;
  nextBox(boxes: GraphBox[], from: number, direction: number[]): number;
  paintEdge(context: CanvasRenderingContext2D, boxes: GraphBox[], edge: GraphEdge, colour: string, width: number): void;
  paintBox(context: CanvasRenderingContext2D, box: GraphBox, look: any, scale: number): void;
  pathsOf(text: string): string[];
  textOf(paths: string[]): string;
  show(root: HTMLElement, view: Record<string, string>): Promise<void>;
  pointOf(root: HTMLElement, number: number): TracePoint;
}
