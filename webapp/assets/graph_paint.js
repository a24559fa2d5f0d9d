// Drawing of the graph of operations: colours, texts that fit, lines through columns, boxes.
(function () {
  'use strict';
  const space = window.tilescopeGraph = window.tilescopeGraph || /** @type {GraphSpace} */ ({});
  const chart = window.tilescopeChart;
  const {tilescopeBytes: bytes, tilescopeCount: count} = window.tilescopeFormats;
  // Distances of boxes, and their size, in pixels at full size.
  const PITCH = 214;
  const ROW = 66;
  const WIDTH = 186;
  const HEIGHT = 42;
  const LANE = 3;
  const BEND = 8;
  const SMALLEST_TEXT = 5;
  const SHADES = 4;

  space.METRICS = {
    cycles: {label: 'Cycles', noun: ' cycles', of: (side) => side.cycles, text: (value) => String(count(value))},
    code: {label: 'Code', noun: '', of: (side) => side.code_bytes, text: (value) => String(bytes(value))},
    memory: {label: 'Memory', noun: '', of: (side) => side.memory_bytes, text: (value) => String(bytes(value))},
  };

  /** Passes of a training step, by their keys: label, and the class that has the colour. */
  space.PASSES = {
    forward: 'Forward', data_gradient: 'Data gradient', weight_gradient: 'Weight gradient',
    weight_update: 'Weight update',
  };

  /** The colours of the passes, and those of several passes and of none. */
  space.passColours = (element, none) => {
    const found = {mixed: '#8a9099', '': none};
    for (const key of Object.keys(space.PASSES)) {
      const sample = document.createElement('span');
      sample.className = 'pass-' + key;
      element.append(sample);
      found[key] = getComputedStyle(sample).getPropertyValue('--phase').trim() || '#888888';
      sample.remove();
    }
    return found;
  };

  /** A box's figures in both reports, and their difference; null where a report lacks the box. */
  space.figures = (box, metric) => {
    const {of} = space.METRICS[metric];
    const [before, after] = [box.baseline, box.candidate].map((side) => side ? of(side) : null);
    return {before, after, delta: (after || 0) - (before || 0), most: Math.max(before || 0, after || 0)};
  };

  /** Black or white, whichever is easier to read on a colour. */
  space.inkOn = (colour) => {
    const [red, green, blue] = [1, 3, 5].map((at) => {
      const part = parseInt(colour.slice(at, at + 2), 16) / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? '#101418' : '#ffffff';
  };

  /** A change as one of the shades from -4 (less) to 4 (more), by its part of the largest change. */
  space.shadeOf = (delta, most) =>
    delta ? Math.sign(delta) * Math.max(1, Math.ceil(Math.abs(delta) / most * SHADES - 1e-9)) : 0;

  space.graphColours = (element) => {
    const style = getComputedStyle(element);
    const value = (name) => style.getPropertyValue('--flame-' + name).trim() || '#888888';
    const found = {...chart.readColours(element), hatch: value('hatch'), shades: {}};
    for (let shade = -SHADES; shade <= SHADES; shade += 1) {
      found.shades[shade] = value(shade ? (shade < 0 ? 'less-' : 'more-') + Math.abs(shade) : 'same');
    }
    return found;
  };

  /** The longest beginning and end of a text that fit, with dots between. */
  space.fitted = (text, width, measure) => {
    if (measure(text) <= width) return text;
    let [low, high] = [0, text.length];
    const cut = (n) => text.slice(0, Math.ceil(n / 2)) + '…' + text.slice(text.length - Math.floor(n / 2));
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (measure(cut(middle)) <= width) low = middle;
      else high = middle - 1;
    }
    return low ? cut(low) : '';
  };

  /** The same of a stretch of the program, `first … last`, which may lose its end. */
  space.fittedLabel = (text, width, measure) => {
    if (measure(text) <= width || !text.includes(' … ')) return space.fitted(text, width, measure);
    return space.fitted(text.split(' … ')[0], width - measure(' …'), measure) + ' …';
  };

  /** Where the middle of a box or place lies, in pixels at full size. */
  space.at = (x, row) => ({x: x * PITCH, y: (row + 0.5) * ROW});

  space.size = (graph) => ({width: Math.max(graph.width, 1) * PITCH, height: graph.n_rows * ROW});

  /** The box at a place, -1 if there is none. */
  space.boxAt = (boxes, {x, y}) => boxes.findIndex((box) => {
    const middle = space.at(box.x, box.row);
    return Math.abs(middle.x - x) <= WIDTH / 2 && Math.abs(middle.y - y) <= HEIGHT / 2;
  });

  /** The nearest box in a direction; the same if there is none. */
  space.nextBox = (boxes, from, [across, down]) => {
    const here = space.at(boxes[from].x, boxes[from].row);
    let [best, least] = [from, Infinity];
    boxes.forEach((box, number) => {
      const there = space.at(box.x, box.row);
      const [x, y] = [there.x - here.x, there.y - here.y];
      const along = x * across + y * down;
      const aside = Math.abs(x * down) + Math.abs(y * across);
      if (along < 1 || aside > along * 3) return;
      if (along + 2 * aside < least) [best, least] = [number, along + 2 * aside];
    });
    return best;
  };

  // A bend from one end to the other, which leaves and arrives vertically.
  function bend(context, from, to) {
    const middle = (from.y + to.y) / 2;
    context.bezierCurveTo(from.x, middle, to.x, middle, to.x, to.y);
  }

  // A line from the end of a column to the start of the next one, with rounded corners.
  function passOver(context, from, to, [, x, lastRow, lane]) {
    const below = (lastRow + 1) * ROW - (ROW - HEIGHT) / 2 + 6 + lane * LANE / 2;
    const corners = [
      {x: from.x, y: below}, {x: x * PITCH, y: below}, {x: x * PITCH, y: 4 + lane * LANE / 3},
      {x: to.x, y: 4 + lane * LANE / 3}, to,
    ];
    for (let i = 0; i + 1 < corners.length; i += 1) {
      context.arcTo(corners[i].x, corners[i].y, corners[i + 1].x, corners[i + 1].y, BEND);
    }
    context.lineTo(to.x, to.y);
  }

  function tip(context, {x, y}, colour) {
    context.fillStyle = colour;
    context.beginPath();
    context.moveTo(x, y + 1);
    context.lineTo(x - 4, y - 6);
    context.lineTo(x + 4, y - 6);
    context.fill();
  }

  /** Draws a line of the graph in its own direction. */
  space.paintEdge = (context, boxes, edge, colour, width) => {
    const [source, target] = [boxes[edge.source], boxes[edge.target]];
    const from = space.at(source.x, source.row);
    const to = space.at(target.x, target.row);
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.beginPath();
    if (edge.source > edge.target) {
      // At the right of both boxes, since above and below lead the others.
      const [start, end] = [{x: from.x + WIDTH / 2, y: from.y}, {x: to.x + WIDTH / 2, y: to.y}];
      const out = Math.max(start.x, end.x) + 22 + Math.min(60, Math.abs(start.y - end.y) / 12);
      context.setLineDash(edge.is_backward ? [5, 4] : []);
      context.moveTo(start.x, start.y);
      context.bezierCurveTo(out, start.y, out, end.y, end.x, end.y);
      context.stroke();
      context.setLineDash([]);
      context.fillStyle = colour;
      context.beginPath();
      context.moveTo(end.x - 1, end.y);
      context.lineTo(end.x + 6, end.y - 4);
      context.lineTo(end.x + 6, end.y + 4);
      context.fill();
      return;
    }
    const points = [
      {x: from.x, y: from.y + HEIGHT / 2}, ...edge.route.map(([x, row]) => space.at(x, row)),
      {x: to.x, y: to.y - HEIGHT / 2},
    ];
    context.moveTo(points[0].x, points[0].y);
    for (let i = 0; i + 1 < points.length; i += 1) {
      const over = edge.folds.find(([after]) => after === i);
      if (over) passOver(context, points[i], points[i + 1], over);
      else bend(context, points[i], points[i + 1]);
    }
    context.stroke();
    tip(context, points[points.length - 1], colour);
  };

  function hatch(context, left, top, colour) {
    context.save();
    context.beginPath();
    context.rect(left, top, WIDTH, HEIGHT);
    context.clip();
    context.strokeStyle = colour;
    context.lineWidth = 1;
    context.beginPath();
    for (let x = left - HEIGHT; x < left + WIDTH; x += 7) {
      context.moveTo(x, top + HEIGHT);
      context.lineTo(x + HEIGHT, top);
    }
    context.stroke();
    context.restore();
  }

  /** Draws a box with its texts; `look` says its colours, and `scale` how large it appears. */
  space.paintBox = (context, box, {fill, edge, width, isDim, isAlone, second, colours}, scale) => {
    const middle = space.at(box.x, box.row);
    const [left, top] = [Math.round(middle.x - WIDTH / 2), Math.round(middle.y - HEIGHT / 2)];
    context.globalAlpha = isDim ? 0.25 : 1;
    const draw = (x, y) => {
      context.fillStyle = fill;
      context.fillRect(x, y, WIDTH, HEIGHT);
      context.strokeStyle = colours.edge;
      context.lineWidth = 1;
      context.strokeRect(x + 0.5, y + 0.5, WIDTH - 1, HEIGHT - 1);
    };
    if (box.is_group) draw(left + 4, top + 4);
    draw(left, top);
    if (isAlone) hatch(context, left, top, colours.hatch);
    if (width) {
      context.strokeStyle = edge;
      context.lineWidth = width;
      context.strokeRect(left - 1, top - 1, WIDTH + 2, HEIGHT + 2);
    }
    if (12 * scale >= SMALLEST_TEXT) {
      context.fillStyle = space.inkOn(fill);
      context.textBaseline = 'middle';
      context.textAlign = 'left';
      const measure = (text) => context.measureText(text).width;
      context.font = '600 12px ' + colours.font.slice(colours.font.indexOf(' ') + 1);
      const sign = box.is_group ? '▸ ' : '';
      const title = space.fittedLabel(box.label, WIDTH - 16 - measure(sign), measure);
      context.fillText(sign + title, left + 8, top + 14);
      context.font = colours.font;
      context.fillText(space.fitted(second, WIDTH - 16, measure), left + 8, top + 30);
    }
    context.globalAlpha = 1;
  };
})();
