// The graph of operations on the page Operations: what it asks, shows, selects, and opens.
(function () {
  'use strict';
  const space = window.tilescopeGraph = window.tilescopeGraph || /** @type {GraphSpace} */ ({});
  const chart = window.tilescopeChart;
  const axis = window.tilescopeAxis;
  const QUIET_MS = 220;
  const CLICK_REACH = 4;
  const [SMALLEST, LARGEST] = [0.04, 2];
  const UNRECORDED = 'This report does not say what operations read of each other: it was written by an'
    + ' earlier version, or without the graph profile (autoReport.outputGraphProfile). Run the program'
    + ' again to see the graph; the table has all other figures.';
  const HELP = 'Graph of the operations. Arrow keys move between boxes, Enter selects an operation or'
    + ' opens a group, Backspace closes the group around; W and S zoom, A and D pan, F shows the selection,'
    + ' 0 everything. The table below has the same boxes.';

  /** Paths of groups in the address: a list in which their own commas are escaped. */
  space.pathsOf = (text) => (text || '').split(',').filter(Boolean).map((one) => decodeURIComponent(one));
  space.textOf = (paths) => paths.map((one) => encodeURIComponent(one)).join(',');

  const signed = (value, text) => value > 0 ? '+' + text(value) : value < 0 ? '−' + text(-value) : '±0';

  class GraphView {
    constructor(root) {
      this.root = root;
      root.classList.add('chart', 'graph');
      this.view = {};
      this.entries = [];
      this.cursor = null;
      this.hovered = -1;
      this.scale = 1;
      this.origin = {x: 0, y: 0};
      const bar = axis.make('div', 'graph-bar', root);
      this.trail = axis.make('div', 'graph-trail', bar);
      const tools = axis.make('div', 'chart-tools', bar);
      this.tool(tools, '+', 'Zoom in (W)', () => this.zoom(1.35));
      this.tool(tools, '−', 'Zoom out (S)', () => this.zoom(1 / 1.35));
      this.tool(tools, 'All', 'All: show everything (0)', () => this.showAll());
      this.tool(tools, 'PNG', 'PNG: save as a picture', () => chart.savePicture(this, 'operation-graph', {
        title: 'Operations', axes: 'Down: order; arrows: bytes handed on; colour: ' + this.view.colour,
      }));
      this.tool(tools, 'CSV', 'CSV: save the visible boxes', () => chart.saveTable(this.table(), 'operation-graph'));
      this.box = axis.make('div', 'chart-box graph-box', root);
      this.box.tabIndex = 0;
      this.box.setAttribute('role', 'application');
      this.box.setAttribute('aria-label', HELP);
      this.canvas = axis.make('canvas', 'chart-canvas', this.box);
      this.tooltip = axis.make('div', 'chart-tooltip', root);
      this.message = axis.make('div', 'chart-message', root);
      this.legend = axis.make('div', 'chart-legend legend', root);
      this.note = axis.make('div', 'chart-note', root);
      this.note.setAttribute('role', 'status');
      this.told = axis.make('div', 'unseen', root);
      this.told.setAttribute('role', 'status');
      this.details = axis.make('details', 'graph-table', root);
      this.summary = axis.make('summary', '', this.details);
      this.holder = axis.make('div', 'graph-table-room', this.details);
      this.details.addEventListener('toggle', () => this.listBoxes());
      this.connect();
      new ResizeObserver(() => this.resized()).observe(this.box);
      new MutationObserver(() => { this.colours = null; this.draw(); }).observe(
        document.documentElement, {attributes: true, attributeFilter: ['data-mantine-color-scheme']},
      );
    }

    tool(parent, text, title, act) {
      axis.tool(parent, text, title, () => { if (this.graph) act(); });
    }

    isShown() {
      return this.box.offsetParent !== null;
    }

    get height() {
      return this.box.clientHeight;
    }

    get metric() {
      return space.METRICS[this.view.colour] ? this.view.colour : 'cycles';
    }

    say(text, isError) {
      this.message.textContent = text;
      this.message.classList.toggle('is-error', Boolean(isError));
      this.message.setAttribute('role', isError ? 'alert' : 'status');
      this.root.classList.toggle('is-empty', text !== '' && !this.graph);
    }

    async show(view) {
      const before = this.view;
      this.view = view;
      const query = new URLSearchParams({layer: view.layer, depth: view.levels});
      if (view.with) query.set('with', view.with);
      if (view.op) query.set('op', view.op);
      for (const path of space.pathsOf(view.open)) query.append('toggled', path);
      const asked = 'operations/' + encodeURIComponent(view.report) + '/graph?' + query;
      if ((view.at || '') !== (before.at || '')) this.follow(view.at);
      if (asked !== this.asked) {
        this.asked = asked;
        try {
          const answer = await chart.ask(asked);
          const graph = await window.tilescope_text.read(answer);
          if (asked !== this.asked) return;
          this.take(graph);
        } catch (error) {
          if (asked !== this.asked) return;
          this.asked = '';
          this.say(error.message, true);
          return;
        }
      }
      this.paintAround();
      this.draw();
    }

    take(graph) {
      const isNew = !this.graph || this.graphOf !== this.view.report + '\n' + this.view.with + '\n' + graph.layer
        || this.levels !== this.view.levels;
      this.graphOf = this.view.report + '\n' + this.view.with + '\n' + graph.layer;
      this.levels = this.view.levels;
      this.graph = graph;
      this.cursor = null;
      this.hovered = -1;
      if (!graph.is_recorded.some(Boolean) || !graph.boxes.length) {
        this.graph = null;
        this.say(graph.is_recorded.some(Boolean) ? 'This report has no operations.' : UNRECORDED);
        return;
      }
      this.say('');
      this.root.dataset.drawn = String(graph.boxes.length);
      if (this.anchor) this.holdAnchor();
      else if (isNew && this.view.at) this.follow(this.view.at);
      else this.fit();
      this.anchor = null;
    }

    // The group that was opened or closed stays where it was on the screen.
    holdAnchor() {
      const {key, at} = this.anchor;
      const number = this.graph.boxes.findIndex((box) => box.key === key || box.around.includes(key));
      if (number < 0) { this.fit(); return; }
      this.cursor = number;
      const box = this.graph.boxes[number];
      const place = space.at(box.x, box.row);
      this.origin = {x: at.x - place.x * this.scale, y: at.y - place.y * this.scale};
      const {width, height} = space.size(this.graph);
      if (width * this.scale < this.box.clientWidth && height * this.scale < this.height) this.fit();
      else this.changed();
    }

    resized() {
      if (!this.graph || !this.isShown()) return;
      if (!this.view.at) this.fit();
      this.draw();
    }

    fit() {
      if (!this.graph) return;
      const {width, height} = space.size(this.graph);
      const [room, tall] = [this.box.clientWidth || 1200, this.height || 500];
      this.scale = Math.max(SMALLEST, Math.min(1, room / width, tall / height));
      this.origin = {x: (room - width * this.scale) / 2, y: Math.max(0, (tall - height * this.scale) / 2)};
    }

    // A place in the address: the graph's point in the middle of the view, and the scale.
    follow(text) {
      const found = /^(-?[\d.]+):(-?[\d.]+):([\d.]+)$/.exec(text || '');
      if (!found) { this.fit(); return; }
      const [x, y, scale] = found.slice(1).map(Number);
      this.scale = Math.max(SMALLEST, Math.min(LARGEST, scale || 1));
      this.origin = {x: this.box.clientWidth / 2 - x * this.scale, y: this.height / 2 - y * this.scale};
    }

    changed() {
      clearTimeout(this.quiet);
      const {report} = this.view;
      this.quiet = setTimeout(() => {
        if (!this.isShown() || this.view.report !== report) return;
        const middle = this.placeOf({x: this.box.clientWidth / 2, y: this.height / 2});
        const at = [Math.round(middle.x), Math.round(middle.y), this.scale.toFixed(3)].join(':');
        this.view.at = at;
        window.tilescope.changeView({at}, false);
      }, QUIET_MS);
    }

    showAll() {
      clearTimeout(this.quiet);
      this.fit();
      this.view.at = '';
      window.tilescope.changeView({at: ''}, false);
      this.draw();
    }

    zoom(factor, at = {x: this.box.clientWidth / 2, y: this.height / 2}) {
      const scale = Math.max(SMALLEST, Math.min(LARGEST, this.scale * factor));
      const part = scale / this.scale;
      this.origin = {x: at.x - (at.x - this.origin.x) * part, y: at.y - (at.y - this.origin.y) * part};
      this.scale = scale;
      this.changed();
      this.draw();
    }

    pan(x, y) {
      this.origin = {x: this.origin.x + x, y: this.origin.y + y};
      this.changed();
      this.draw();
    }

    placeOf({x, y}) {
      return {x: (x - this.origin.x) / this.scale, y: (y - this.origin.y) / this.scale};
    }

    pointOf(number) {
      const box = this.graph.boxes[number];
      const place = space.at(box.x, box.row);
      return {x: place.x * this.scale + this.origin.x, y: place.y * this.scale + this.origin.y};
    }

    connect() {
      const {box} = this;
      const point = (event) => {
        const own = this.canvas.getBoundingClientRect();
        return {x: event.clientX - own.left, y: event.clientY - own.top};
      };
      const hit = (event) => this.graph ? space.boxAt(this.graph.boxes, this.placeOf(point(event))) : -1;
      box.addEventListener('wheel', (event) => {
        if (!this.graph) return;
        event.preventDefault();
        const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
        if (event.shiftKey) this.pan(-(event.deltaX || event.deltaY) * unit, 0);
        else this.zoom(Math.exp(-Math.max(-240, Math.min(240, event.deltaY * unit)) / 480), point(event));
      }, {passive: false});
      let begun = null;
      box.addEventListener('pointerdown', (event) => {
        if (event.button || !this.graph) return;
        begun = {at: point(event), origin: this.origin, isDrag: false};
        box.setPointerCapture(event.pointerId);
      });
      box.addEventListener('pointermove', (event) => {
        if (!begun) { this.hover(hit(event), event); return; }
        const now = point(event);
        const [x, y] = [now.x - begun.at.x, now.y - begun.at.y];
        if (!begun.isDrag && Math.hypot(x, y) < CLICK_REACH) return;
        begun.isDrag = true;
        box.classList.add('is-dragged');
        this.origin = {x: begun.origin.x + x, y: begun.origin.y + y};
        this.hover(-1);
        this.draw();
      });
      const end = (event) => {
        if (!begun) return;
        const {isDrag} = begun;
        begun = null;
        box.classList.remove('is-dragged');
        if (isDrag) { this.changed(); return; }
        if (event.type !== 'pointerup') return;
        const number = hit(event);
        this.cursor = number < 0 ? null : number;
        if (number >= 0) this.choose(number);
        this.paintTrail();
        this.draw();
      };
      box.addEventListener('pointerup', end);
      box.addEventListener('pointercancel', end);
      box.addEventListener('pointerleave', () => this.hover(-1));
      box.addEventListener('dblclick', (event) => {
        const number = hit(event);
        if (number < 0) this.showAll();
        else if (this.graph.boxes[number].is_group) this.toggle(this.graph.boxes[number].key, number);
      });
      box.addEventListener('blur', () => { this.hover(-1); this.draw(); });
      box.addEventListener('keydown', (event) => {
        if (!this.graph || event.ctrlKey || event.altKey || event.metaKey || !this.press(event)) return;
        event.preventDefault();
        event.stopPropagation();
      });
    }

    press({key}) {
      const {boxes} = this.graph;
      const ways = {ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1]};
      const at = this.cursor ?? (this.chosen >= 0 ? this.chosen : null);
      if (ways[key]) this.moveTo(at === null ? 0 : space.nextBox(boxes, at, ways[key]));
      else if (key === 'Home') this.moveTo(0);
      else if (key === 'End') this.moveTo(boxes.length - 1);
      else if (key === 'Enter' && at !== null) {
        if (boxes[at].is_group) this.toggle(boxes[at].key, at);
        else this.choose(at);
      } else if (key === 'Backspace') this.closeAround(at);
      else if (key === 'Escape') {
        this.cursor = null;
        window.tilescope.changeView({op: ''}, false);
        this.draw();
      } else {
        const acts = {
          w: () => this.zoom(1.35), s: () => this.zoom(1 / 1.35), a: () => this.pan(120, 0),
          d: () => this.pan(-120, 0), 0: () => this.showAll(), f: () => this.reveal(this.chosen),
        };
        if (!acts[key.toLowerCase()]) return false;
        acts[key.toLowerCase()]();
      }
      return true;
    }

    moveTo(number) {
      this.cursor = number;
      const {x, y} = this.pointOf(number);
      if (x < 60 || y < 20 || x > this.box.clientWidth - 60 || y > this.height - 20) this.reveal(number);
      this.told.textContent = this.describe(this.graph.boxes[number]).join(', ');
      this.paintTrail();
      this.draw();
    }

    // Brings a box into the middle.
    reveal(number) {
      if (!(number >= 0)) return;
      if (this.scale < 0.5) this.scale = 1;
      const {x, y} = this.pointOf(number);
      this.pan(this.box.clientWidth / 2 - x, this.height / 2 - y);
    }

    // Number of the box that is or contains the selected operation; -1 without one.
    get chosen() {
      const {graph, view} = this;
      if (!view.op) return -1;
      const own = graph.boxes.findIndex((box) => !box.is_group && box.key === view.op);
      return own >= 0 ? own : graph.chosen ?? -1;
    }

    choose(number) {
      const box = this.graph.boxes[number];
      this.told.textContent = this.describe(box).join(', ');
      if (box.is_group) return;
      window.tilescope.changeView({op: box.key}, true);
    }

    toggle(path, number) {
      const paths = space.pathsOf(this.view.open);
      const others = paths.filter((one) => one !== path);
      const at = number === undefined ? {x: this.box.clientWidth / 2, y: 60} : this.pointOf(number);
      this.anchor = {key: path, at};
      const open = space.textOf(others.length < paths.length ? others : [...paths, path]);
      window.tilescope.changeView({open}, true);
    }

    // Closes the innermost open group around a box.
    closeAround(number) {
      const {boxes, open_groups: groups} = this.graph;
      const around = groups.filter(({key}) => number !== null && boxes[number].around.includes(key));
      if (around.length) this.toggle(around[around.length - 1].key, number);
    }

    counted(n) {
      return this.graph.layer === 'step' ? axis.plural(n, 'step', 'steps') : axis.plural(n, 'operation', 'operations');
    }

    describe(box) {
      const parts = [(box.place ? box.place + ' / ' : '') + box.label];
      if (box.is_group) parts.push(this.counted(box.n_operations) + ', closed');
      else parts.push(box.operation);
      for (const [name, {label, text}] of Object.entries(space.METRICS)) {
        const {before, after, delta} = space.figures(box, name);
        parts.push(label + ' ' + (this.view.with
          ? [before, after].map((one) => one === null ? 'missing' : text(one)).join(' to ') + ', ' + signed(delta, text)
          : text(before)));
      }
      return parts;
    }

    hover(number, event) {
      if (number !== this.hovered) { this.hovered = number; this.draw(); }
      this.box.classList.toggle('is-over', number >= 0);
      const {tooltip, graph} = this;
      if (number < 0 || !event) { tooltip.style.display = 'none'; return; }
      const box = graph.boxes[number];
      tooltip.textContent = '';
      axis.make('div', 'chart-tooltip-title', tooltip).textContent = (box.place ? box.place + ' / ' : '') + box.label;
      axis.make('div', '', tooltip).textContent = box.is_group
        ? this.counted(box.n_operations) + ' · double-click or Enter opens' : box.operation;
      const table = axis.make('table', '', tooltip);
      for (const [name, {label, text}] of Object.entries(space.METRICS)) {
        const {before, after, delta} = space.figures(box, name);
        const row = axis.make('tr', '', table);
        axis.make('th', '', row).textContent = label;
        const shown = (value) => value === null ? '–' : text(value);
        const values = this.view.with ? [shown(before), shown(after), signed(delta, text)] : [shown(before)];
        for (const value of values) axis.make('td', '', row).textContent = value;
      }
      const links = graph.edges.filter((edge) => edge.target === number || edge.source === number);
      const [read, given] = [links.filter((edge) => edge.target === number), links.filter((edge) => edge.source === number)];
      axis.make('div', '', tooltip).textContent = 'Reads from ' + axis.plural(read.length, 'box', 'boxes')
        + ', is read by ' + axis.plural(given.length, 'box', 'boxes');
      tooltip.style.display = 'block';
      const root = this.root.getBoundingClientRect();
      const x = event.clientX - root.left + 14;
      tooltip.style.left = Math.max(0, x + tooltip.offsetWidth < root.width ? x : x - tooltip.offsetWidth - 28) + 'px';
      tooltip.style.top = event.clientY - root.top + 14 + 'px';
    }

    draw() {
      if (this.frame) return;
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        if (this.graph && this.isShown()) this.paint(this.canvas, window.devicePixelRatio || 1);
      });
    }

    // How boxes are coloured: by a figure, or by its change.
    palette() {
      const {boxes} = this.graph;
      const {metric, colours} = this;
      const most = (of) => Math.max(0, ...boxes.map((box) => of(space.figures(box, metric))));
      if (this.view.with) {
        const largest = most(({delta}) => Math.abs(delta));
        return {largest, fill: (box) => colours.shades[space.shadeOf(space.figures(box, metric).delta, largest)]};
      }
      if (this.view.colour === 'pass') {
        const passes = colours.passes = colours.passes || space.passColours(this.root, colours.shades[0]);
        return {largest: 0, fill: (box) => passes[box.training_pass]};
      }
      const largest = most((one) => one.most);
      const fillOf = (level) => level
        ? chart.mixed(colours.scaleLow, colours.scaleHigh, (level - 1) / (chart.LEVELS - 1)) : colours.shades[0];
      return {largest, fillOf, fill: (box) => fillOf(chart.levelOf(space.figures(box, metric).most, largest))};
    }

    paint(canvas, ratio) {
      this.colours = this.colours || space.graphColours(this.root);
      const {colours, graph, metric, chosen} = this;
      const {boxes, edges} = graph;
      const context = axis.prepare(canvas, this.box.clientWidth, this.height, ratio);
      context.save();
      context.translate(this.origin.x, this.origin.y);
      context.scale(this.scale, this.scale);
      const active = this.hovered >= 0 ? this.hovered : this.cursor ?? chosen;
      const heaviest = Math.max(1, ...edges.map((edge) => Math.max(edge.baseline_bytes || 0, edge.candidate_bytes || 0)));
      const passes = [edges.filter((edge) => edge.source !== active && edge.target !== active),
        edges.filter((edge) => edge.source === active || edge.target === active)];
      passes.forEach((part, isActive) => part.forEach((edge) => {
        const size = Math.max(edge.baseline_bytes || 0, edge.candidate_bytes || 0);
        const [isAdded, isLost] = [edge.baseline_bytes === null, edge.candidate_bytes === null];
        const plain = edge.is_backward ? colours.match : colours.border;
        const differs = isAdded ? colours.shades[3] : isLost ? colours.shades[-3] : plain;
        const colour = isActive ? colours.accent : this.view.with ? differs : plain;
        space.paintEdge(context, boxes, edge, colour, (isActive ? 1 : 0) + Math.max(1 + 2 * Math.sqrt(size / heaviest), 0.8 / this.scale));
      }));
      const {fill} = this.palette();
      const {text, noun} = space.METRICS[metric];
      const find = window.tilescope_search.words(this.view.find || '');
      boxes.forEach((box, number) => {
        const {before, after, delta} = space.figures(box, metric);
        const figure = this.view.with ? signed(delta, text) : text(before) + noun;
        const kind = box.is_group ? this.counted(box.n_operations) : box.operation.split('.').pop();
        const isCursor = number === this.cursor && document.activeElement === this.box;
        space.paintBox(context, box, {
          fill: fill(box), colours, second: figure + ' · ' + kind,
          edge: number === chosen ? colours.match : colours.ink,
          width: number === chosen ? 3 : isCursor || number === this.hovered ? 2 : 0,
          isDim: !window.tilescope_search.fit(find, box.key + ' ' + box.operation),
          isAlone: Boolean(this.view.with) && (before === null || after === null),
        }, this.scale);
      });
      context.restore();
    }

    // The open groups around the current box, outermost first; a click closes one.
    paintTrail() {
      const {graph, trail} = this;
      const at = this.cursor ?? this.chosen;
      const around = at >= 0 ? graph.boxes[at].around : [];
      trail.textContent = '';
      if (!graph.open_groups.length) return;
      if (!around.length) {
        trail.append(axis.plural(graph.open_groups.length, 'group is', 'groups are')
          + ' open · click a box to see those around it');
        return;
      }
      trail.append('Close: ');
      for (const {key, label} of graph.open_groups.filter((group) => around.includes(group.key))) {
        const button = axis.make('button', 'graph-open', trail);
        button.type = 'button';
        button.title = 'Close ' + key;
        button.textContent = label + ' ×';
        button.addEventListener('click', () => this.toggle(key));
      }
    }

    // The open groups, the legend and the note.
    paintAround() {
      const {graph} = this;
      if (!graph) return;
      this.colours = this.colours || space.graphColours(this.root);
      this.paintTrail();
      this.paintLegend();
      const shown = graph.boxes.reduce((sum, box) => sum + box.n_operations, 0);
      const parts = [axis.plural(graph.boxes.length, 'box', 'boxes') + ' of ' + this.counted(shown),
      'lines lead from what computes to what reads, as thick as the bytes read'];
      if (graph.edges.some((edge) => edge.is_backward)) parts.push('dashed ones lead to the next round or run');
      if (graph.n_left_out) {
        parts.push(axis.plural(graph.n_left_out, 'more step', 'more steps') + ', such as exchanges, are not linked and left out: '
          + axis.plural(graph.left_out_cycles, 'cycle', 'cycles'));
      }
      if (graph.is_full) parts.push('some groups stay closed: at most 400 boxes are shown');
      if (this.view.with && !graph.is_recorded.every(Boolean)) {
        parts.push('the ' + (graph.is_recorded[0] ? 'candidate' : 'baseline') + ' does not record data flow');
      }
      const text = parts.join(' · ');
      if (this.note.textContent !== text) this.note.textContent = text;
      this.summary.textContent = 'Table of the ' + axis.plural(graph.boxes.length, 'box', 'boxes');
      this.listBoxes();
    }

    paintLegend() {
      const {largest, fillOf} = this.palette();
      const {text, label} = space.METRICS[this.metric];
      const {shades} = this.colours;
      if (this.view.with) {
        this.entries = [{label: 'less ' + label.toLowerCase() + ', up to ' + text(largest), colour: shades[-4]},
          {label: 'same', colour: shades[0]}, {label: 'more, up to ' + text(largest), colour: shades[4]},
          {label: 'lines of the baseline alone', colour: shades[-3]},
          {label: 'lines of the candidate alone', colour: shades[3]}];
      } else if (this.view.colour === 'pass') {
        const present = (key) => this.graph.boxes.some((box) => box.training_pass === key);
        const {passes} = this.colours;
        this.entries = Object.entries({...space.PASSES, mixed: 'Several passes', '': 'No pass'})
          .filter(([key]) => present(key)).map(([key, words]) => ({label: words, colour: passes[key]}));
      } else {
        this.entries = [{label: 'none', colour: fillOf(0)}];
        for (let level = 1; level <= chart.LEVELS && largest; level += 1) {
          this.entries.push({label: 'up to ' + text(Math.floor(largest * level / chart.LEVELS)), colour: fillOf(level)});
        }
      }
      this.legend.textContent = '';
      for (const {label: words, colour} of this.entries) {
        const item = axis.make('span', '', this.legend);
        axis.make('span', 'swatch', item).style.background = colour;
        item.append(words);
      }
    }

    // The visible boxes as rows, with what they read from.
    table() {
      const {boxes, edges} = this.graph;
      const name = (box) => (box.place ? box.place + ' / ' : '') + box.label;
      const isPair = Boolean(this.view.with);
      const heads = Object.values(space.METRICS).map(({label}) => label);
      const sides = isPair ? ['baseline', 'candidate', 'difference'] : [''];
      return {
        columns: ['Name', 'Kind', 'Operations',
          ...heads.flatMap((head) => sides.map((side) => side ? head + ', ' + side : head)), 'Reads from'],
        rows: boxes.map((box, number) => [
          name(box), box.is_group ? 'group' : box.operation, box.n_operations,
          ...Object.keys(space.METRICS).flatMap((metric) => {
            const {before, after, delta} = space.figures(box, metric);
            return isPair ? [before ?? '', after ?? '', delta] : [before];
          }),
          edges.filter((edge) => edge.target === number).map((edge) => name(boxes[edge.source])).join('; '),
        ]),
      };
    }

    listBoxes() {
      if (!this.details.open || !this.graph) return;
      const {columns, rows} = this.table();
      const table = document.createElement('table');
      table.className = 'facts';
      const head = axis.make('tr', '', axis.make('thead', '', table));
      columns.forEach((column, place) => {
        axis.make('th', typeof rows[0][place] === 'number' ? 'number' : '', head).textContent = column;
      });
      const body = axis.make('tbody', '', table);
      rows.forEach((values, number) => {
        const row = axis.make('tr', '', body);
        values.forEach((value, place) => {
          const cell = axis.make('td', typeof value === 'number' ? 'number' : '', row);
          if (place) { cell.textContent = typeof value === 'number' ? axis.count(value) : value; return; }
          const button = axis.make('button', 'graph-name', cell);
          button.type = 'button';
          button.textContent = String(value);
          button.addEventListener('click', () => {
            const box = this.graph.boxes[number];
            if (box.is_group) this.toggle(box.key, number);
            else this.choose(number);
          });
        });
      });
      this.holder.replaceChildren(table);
    }
  }

  const views = new WeakMap();
  space.show = (root, view) => {
    if (!views.has(root)) views.set(root, new GraphView(root));
    return views.get(root).show(view);
  };

  /** Where the middle of a box lies on the drawing, in pixels. */
  space.pointOf = (root, number) => views.get(root).pointOf(number);
})();
