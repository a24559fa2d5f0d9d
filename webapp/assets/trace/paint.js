// Drawing of lanes, ruler and overview strip on canvases. Never waits for data.
(function () {
  'use strict';
  const space = window.tilescopeTrace = window.tilescopeTrace || /** @type {TraceSpace} */ ({});
  const RULER = 24;
  const LETTER_FROM = 13;
  const ROOM_BESIDE = 6; // pixels beside a name in its bar
  const GROUP = 9; // the kind of a call's bar, see VARIABLES
  const STREAM_BEGIN = 5; // a sync with the host, in which other IPUs may be waited for
  space.RULER = RULER;

  const VARIABLES = [
    'compute', 'exchange', 'global-exchange', 'sync', 'external-sync',
    'stream-begin', 'stream-copy', 'stream-end', 'other', 'group', 'run',
  ];

  // Colours from the page's CSS variables, which define both schemes.
  space.readColours = (element) => {
    const style = getComputedStyle(element);
    const value = (name) => style.getPropertyValue('--trace-' + name).trim() || '#888';
    return {
      kinds: VARIABLES.map((name) => value(name)),
      onKinds: VARIABLES.map((name) => value('on-' + name)),
      groups: ['group', 'group-2'].map(value),
      ink: value('ink'), soft: value('soft'), line: value('line'), surface: value('surface'),
      more: value('more'), less: value('less'),
      accent: value('accent'), shade: value('shade'), match: value('match'),
      font: '11px ' + (style.getPropertyValue('--font').trim() || 'sans-serif'),
    };
  };

  // The first bar that ends after a cycle; bars of a lane do not overlap.
  space.firstEndingAfter = (lane, cycle) => {
    let low = 0;
    let high = lane.n;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (lane.start[middle] + lane.duration[middle] > cycle) high = middle;
      else low = middle + 1;
    }
    return low;
  };

  // The first bar that begins at a cycle or later.
  space.firstBeginningAt = (lane, cycle) => {
    let low = 0;
    let high = lane.n;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (lane.start[middle] >= cycle) high = middle;
      else low = middle + 1;
    }
    return low;
  };

  space.barAt = (lane, cycle, reach) => {
    const i = space.firstEndingAfter(lane, cycle);
    if (i < lane.n && lane.start[i] <= cycle) return i;
    // A narrow bar is drawn wider than it is: accept a pointer next to it.
    if (i > 0 && cycle - lane.start[i - 1] - lane.duration[i - 1] < reach) return i - 1;
    if (i < lane.n && lane.start[i] - cycle < reach) return i;
    return -1;
  };

  /** The nearest edge of a single slice that is longer than `reach`; NaN where none is within it. */
  space.edgeNear = (lane, cycle, reach) => {
    let best = NaN;
    for (let i = space.firstEndingAfter(lane, cycle - reach); i < lane.n && lane.start[i] <= cycle + reach; i += 1) {
      if (lane.mix[i] >= 0 || lane.duration[i] <= reach) continue;
      for (const edge of [lane.start[i], lane.start[i] + lane.duration[i]]) {
        const distance = Math.abs(edge - cycle);
        if (distance <= reach && !(distance >= Math.abs(best - cycle))) best = edge;
      }
    }
    return best;
  };

  const widths = new Map();
  function textWidth(context, text) {
    let width = widths.get(text);
    if (width === undefined) {
      if (widths.size > 20000) widths.clear();
      width = context.measureText(text).width;
      widths.set(text, width);
    }
    return width;
  }

  space.textWidth = textWidth;

  // The name of a run with its length, as far as it fits; kept by name and room in steps of three pixels.
  function runName(context, source, id, room) {
    source.runNames = source.runNames || new Map();
    const steps = Math.floor(room / 3);
    const key = id + ' ' + steps;
    let text = source.runNames.get(key);
    if (text === undefined) {
      if (source.runNames.size > 20000) source.runNames.clear();
      const whole = space.runText(source, source.label(id));
      text = space.labelText(whole, '', space.ALONE, 3 * steps, (part) => textWidth(context, part));
      source.runNames.set(key, text);
    }
    return text;
  }

  /** The texts of a source's names; widths are those of the font in a context. */
  space.labelsOf = (source, context) => {
    if (!source.texts) source.texts = new space.Labels(source, (text) => textWidth(context, text));
    return source.texts;
  };

  /** Which of the tints of groups a name has: siblings have them in turn. */
  space.tintOf = (source, id) => {
    if (!source.tints || source.tints.length !== source.labels.length) {
      const seen = new Map();
      source.tints = Uint8Array.from(source.labels, (_, one) => {
        const n = seen.get(source.parents[one]) || 0;
        seen.set(source.parents[one], n + 1);
        return n % 2;
      });
    }
    return source.tints[id] || 0;
  };

  // Draws a lane, whose starts count from `data.start`. Returns the numbers of visible slices and bars
  // for the note about merging.
  space.paintLane = (context, data, lane, box, scene) => {
    const {start, end, colours, source, matches, kinds} = scene;
    const scale = box.width / (end - start);
    const shift = data.start - start;
    // Edges lie on pixels of the screen: others take several times as long to draw.
    const whole = (at) => Math.round(at * scene.ratio) / scene.ratio;
    const {bars, slices} = space.seenOf(data, lane, scene);
    const prepared = space.prepareLane(lane, data.perPixel);
    const height = Math.max(1, box.height - (box.height > 8 ? 2 : 1));
    if (prepared.wide.length < lane.n) space.paintBaked(context, data, lane, {...box, height}, scene);
    for (const {kind, wide} of prepared.byKind) {
      if (scene.hidden & 1 << kind) continue;
      context.fillStyle = space.fillOf(context, kind, scene);
      for (let at = space.firstOf(lane, wide, start - data.start); at < wide.length; at += 1) {
        const i = wide[at];
        const left = (lane.start[i] + shift) * scale;
        if (left >= box.width) break;
        const x0 = whole(Math.max(-2, left));
        const width = whole(Math.min(box.width + 2, left + lane.duration[i] * scale)) - x0;
        if (kind === GROUP) context.fillStyle = colours.groups[space.tintOf(source, lane.name[i])];
        if (matches) context.globalAlpha = matches[lane.name[i]] ? 1 : 0.22;
        const shown = width > 4 ? width - 1 : width;
        if (shown > 0) context.fillRect(box.x + x0, box.y, shown, height);
        if (kind !== space.WAIT || shown < 4) continue;
        context.fillStyle = colours.kinds[kind];
        context.fillRect(box.x + x0, box.y, shown, 1);
        context.fillRect(box.x + x0, box.y + height - 1, shown, 1);
        context.fillStyle = space.fillOf(context, kind, scene);
      }
    }
    context.globalAlpha = 1;
    if (height < LETTER_FROM - 2) return [slices, bars];
    context.textBaseline = 'middle';
    const labels = space.labelsOf(source, context);
    const {wide} = prepared;
    const narrowest = LETTER_FROM / scale;
    for (let at = space.firstOf(lane, wide, start - data.start); at < wide.length; at += 1) {
      const i = wide[at];
      const left = (lane.start[i] + shift) * scale;
      if (left >= box.width) break;
      if (lane.duration[i] < narrowest) continue;
      const x0 = Math.max(0, left);
      const width = Math.min(box.width, left + lane.duration[i] * scale) - x0;
      if (width < LETTER_FROM) continue;
      const kind = lane.kind[i];
      if (scene.hidden & (1 << kind)) continue;
      const id = lane.name[i];
      if (matches && id >= 0 && matches[id]) {
        context.strokeStyle = colours.match;
        context.lineWidth = 2;
        context.strokeRect(box.x + x0 + 1, box.y + 1, width - 3, height - 2);
      }
      const middle = box.y + height / 2 + 0.5;
      const room = width - ROOM_BESIDE;
      const name = id < 0 || room <= 0 ? '' : lane.level < 0
        ? runName(context, source, id, room)
        : (kind === space.WAIT || kind === STREAM_BEGIN) && scene.nameOfWait && scene.nameOfWait(lane.start[i] + data.start,
          lane.start[i] + lane.duration[i] + data.start, room) || labels.text(id, room);
      const text = name || (kind < GROUP ? kinds[kind].letter : '');
      if (!text) continue;
      const x = box.x + x0 + (name ? 3 : (width - textWidth(context, text)) / 2);
      if (kind === space.WAIT) {
        // On a hatch, a name has the surface behind it.
        context.fillStyle = colours.surface;
        context.fillRect(x - 2, middle - 7, textWidth(context, text) + 4, 14);
        context.fillStyle = colours.ink;
      } else {
        context.fillStyle = matches && id >= 0 && !matches[id] ? colours.soft : colours.onKinds[kind];
      }
      context.fillText(text, x, middle);
    }
    return [slices, bars];
  };

  space.paintRuler = (context, box, scene) => {
    const {start, end, colours} = scene;
    context.fillStyle = colours.surface;
    context.fillRect(box.x - 1, 0, box.width + 1, RULER);
    const {step, ticks} = space.ticks(start, end, box.width, 110);
    context.textBaseline = 'middle';
    context.fillStyle = colours.soft;
    // The first label carries the unit; a label that would be cut off goes left of its tick.
    let last = -Infinity;
    ticks.forEach((tick, i) => {
      const x = Math.round(box.x + (tick - start) / (end - start) * box.width) + 0.5;
      const text = space.tickLabel(tick, step) + (i === 0 ? scene.unit : '');
      const room = box.x + box.width - x - 4;
      const width = textWidth(context, text);
      context.fillRect(x, RULER - 6, 1, 6);
      // A label that would lie over the one before is left out.
      const from = width <= room ? x + 4 : x - 4 - width;
      if (from < last + 6) return;
      last = from + width;
      context.fillText(text, from, RULER / 2);
    });
    context.fillStyle = colours.line;
    context.fillRect(box.x, RULER - 1, box.width, 1);
  };

  space.paintGrid = (context, box, scene) => {
    const {ticks} = space.ticks(scene.start, scene.end, box.width, 110);
    context.fillStyle = scene.colours.line;
    for (const tick of ticks) {
      const x = Math.round(box.x + (tick - scene.start) / (scene.end - scene.start) * box.width);
      context.fillRect(x, box.y, 1, box.height);
    }
  };
})();
