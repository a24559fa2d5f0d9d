// Part of the viewer: painting of a frame, the note below it, the tooltip and the legend.
(function () {
  'use strict';
  const space = window.tilescopeTrace = window.tilescopeTrace || /** @type {TraceSpace} */ ({});

  const STILL_MS = 60;
  const NOTE_MS = 100;

  (space.parts = space.parts || []).push({
    draw() {
      if (this.frame) return;
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.advance();
        const since = performance.now();
        this.paint();
        this.frames.push(performance.now() - since);
        if (this.frames.length > 600) this.frames.splice(0, 300);
      });
    },

    paint() {
      if (!this.extent || !this.isShown()) return;
      // The page is measured once a frame: every reading after a writing would lay it out again.
      const {scroller} = this;
      this.measured = {width: this.width, height: scroller.clientHeight, scroll: scroller.scrollTop};
      try {
        this.paintOn(this.canvas, window.devicePixelRatio || 1);
      } finally {
        this.measured = null;
      }
    },

    paintOn(canvas, ratio) {
      this.colours = this.colours || space.readColours(this.root);
      const {colours, scroller} = this;
      const width = this.width;
      const height = this.measured ? this.measured.height : scroller.clientHeight;
      const context = space.prepare(canvas, width, height, ratio);
      context.font = colours.font;
      const scene = {
        start: this.range.start, end: this.range.end, colours, ratio,
        source: this.source, matches: null, kinds: this.kinds, hidden: this.hidden,
        unit: space.axisUnit(this.align), cell: this.cyclesPerPixel, isMoving: this.noteMotion(),
      };
      space.paintGrid(context, {x: 0, y: space.RULER, width, height}, scene);
      let slices = 0;
      let bars = 0;
      const isMoved = (group) => {
        const data = group.tile === undefined && group.form === 'open' && this.best(group);
        return data && data.levels !== group.levels;
      };
      if (this.groups.some(isMoved)) this.arrange();
      const shown = this.visibleGroups(false);
      const paintRow = (group) => {
        const data = this.best(group);
        if (!data) return;
        scene.source = this.sources[group.side];
        scene.matches = this.matches && this.matches[group.side];
        const {share} = group;
        const shares = group.form === 'strip' ? group.rows[0] : share;
        if (shares && data.columns) {
          const y = this.screenTop(group) + shares.top;
          const tall = shares.height - (shares.height > 8 ? 2 : 1);
          if (y + tall > space.RULER && y < height) space.paintShares(context, data, {x: 0, y, width, height: tall}, scene);
          if (group.form === 'strip') {
            this.paintCritical(context, group, y + tall, scene);
            for (const lane of data.lanes) {
              if (lane.level !== 0) continue;
              slices += space.seenOf(data, lane, scene).slices;
              bars += 1;
            }
            return;
          }
        }
        const delta = group.rows.find(({type}) => type === 'delta');
        if (delta) this.paintDelta(context, group, delta, this.screenTop(group) + delta.top, scene);
        const names = group.rows.find(({type}) => type === 'names');
        if (names && !scene.isMoving) this.paintNames(context, group, names, this.screenTop(group) + names.top, scene);
        const narrow = this.boxOf(group);
        if (narrow) {
          const y = this.screenTop(group) + narrow.top;
          if (y + narrow.height > space.RULER && y < height) this.paintLongest(context, narrow, y, scene);
        }
        scene.nameOfWait = (from, to, room) => {
          const wait = this.waits.length ? space.waitAt(this.waits, group.ipu, (from + to) / 2) : null;
          return wait ? space.waitText(wait, room, (part) => space.textWidth(context, part)) : '';
        };
        for (const lane of data.lanes) {
          const y = this.screenTop(group) + lane.top;
          if (narrow && lane.level >= narrow.level) {
            const seen = space.seenOf(data, lane, scene);
            slices += seen.slices;
            continue;
          }
          if (!lane.height || y + lane.height <= space.RULER || y >= height) continue;
          const box = {x: 0, y, width, height: lane.height};
          const seen = space.paintLane(context, data, lane, box, scene);
          slices += seen[0];
          bars += seen[1];
          if (lane.level < 0) this.paintCritical(context, group, y + lane.height - 2, scene);
        }
      };
      shown.filter((group) => !group.isPinned).forEach(paintRow);
      const bottom = this.pinnedBottom;
      if (bottom > space.RULER) {
        // Rows that scroll go under the pinned ones.
        context.fillStyle = colours.surface;
        context.fillRect(0, space.RULER, width, bottom - space.RULER);
        space.paintGrid(context, {x: 0, y: space.RULER, width, height: bottom - space.RULER}, scene);
        shown.filter((group) => group.isPinned).forEach(paintRow);
        context.fillStyle = colours.soft;
        context.fillRect(0, bottom - 1, width, 1);
      }
      this.paintMarks(context, width, height);
      this.paintWaits(context, width, height);
      this.paintSelection(context, width, height);
      space.paintRuler(context, {x: 0, width}, scene);
      this.paintNotes(context, width, height);
      if (canvas !== this.canvas) return;
      this.overview.paint(colours, ratio);
      if (bars && !this.firstPaint) {
        this.firstPaint = performance.now();
        performance.mark('trace-first-paint');
      }
      this.slices = slices;
      this.bars = bars;
      this.updateLegend();
      this.writeNoteSoon();
    },

    // Whether the scale is changing; bitmaps of the new one are made once it has stopped.
    noteMotion() {
      const isMoving = this.scale !== undefined && !space.isSameScale(this.scale, this.cyclesPerPixel);
      if (isMoving || this.scale === undefined) this.scale = this.cyclesPerPixel;
      clearTimeout(this.still);
      if (isMoving) this.still = setTimeout(() => this.draw(), STILL_MS);
      return isMoving;
    },

    paintSelection(context, width, height) {
      const {colours, state, selected} = this;
      const x = (cycle) => (cycle - this.range.start) / (this.range.end - this.range.start) * width;
      if (state.mark) {
        const [from, to] = [Math.max(-2, x(state.mark.start)), Math.min(width + 2, x(state.mark.end))];
        context.fillStyle = colours.shade;
        context.fillRect(from, 0, Math.max(1, to - from), height);
        context.fillStyle = colours.accent;
        context.fillRect(from, 0, 1.5, height);
        context.fillRect(to - 1.5, 0, 1.5, height);
      }
      if (!selected) return;
      const found = this.rowOf(selected);
      if (!found || !found.lane.height) return;
      const y = this.screenTop(found.row) + found.lane.top;
      const from = Math.max(-3, x(selected.start_cycle));
      const to = Math.min(width + 3, x(selected.end_cycle));
      context.save();
      context.beginPath();
      context.rect(0, found.row.isPinned ? 0 : this.pinnedBottom, width, height);
      context.clip();
      context.strokeStyle = colours.ink;
      context.lineWidth = 2;
      context.strokeRect(from, y - 0.5, Math.max(3, to - from - 1), found.lane.height - 1);
      context.restore();
    },

    // The note follows motion at most ten times a second: every new text lays out the page.
    writeNoteSoon() {
      if (this.noteLater) return;
      this.noteLater = setTimeout(() => {
        this.noteLater = 0;
        this.writeNote();
      }, this.note.textContent ? NOTE_MS : 0);
    },

    writeNote() {
      this.writeMatch();
      if (!this.extent) { this.note.textContent = ''; return; }
      const parts = [space.rangeWords(this.range, this.align, this.sources, this.hertz)];
      if (this.slices > this.bars) {
        parts.push(space.count(this.slices) + ' slices shown as ' + space.count(this.bars)
          + ' bars; zoom in to separate them');
      } else if (this.bars) {
        parts.push('every slice shown (' + space.count(this.bars) + ')');
      }
      const run = space.runWords(this.range, this.runs || []);
      if (run) parts.push(run);
      const {mark} = this.state;
      const {selected} = this;
      if (selected) {
        parts.push('selected: ' + (selected.name || selected.kind || 'a slice') + ', '
          + space.plural(selected.end_cycle - selected.start_cycle, 'cycle', 'cycles') + ' from ' + space.count(selected.start_cycle)
          + ' on IPU ' + selected.ipu_id);
      }
      if (mark) parts.push(space.plural(mark.end - mark.start, 'cycle', 'cycles') + ' selected');
      if (this.missing || this.found) parts.push(this.missing || this.found);
      const text = parts.join(' · ');
      if (this.note.textContent !== text) this.note.textContent = text;
    },

    // The kind of a bar, or the share of each kind in the cycles of several slices.
    contents(lane, i) {
      const named = (kind) => kind.label + ' [' + kind.letter + ']';
      const mix = lane.mix[i];
      if (mix < 0) return named(this.kinds[lane.kind[i]]);
      return this.kinds.map((kind) => ({kind, share: lane.share[mix + kind.number] / 2.55}))
        .filter(({share}) => share > 0).sort((a, b) => b.share - a.share)
        .map(({kind, share}) => named(kind) + ' ' + share.toFixed(0) + ' %').join(', ');
    },

    // The shares of kinds under the pointer, of a row that draws them; null elsewhere.
    sharesAt(at) {
      const group = at && this.extent && at.y >= space.RULER ? this.groupAt(at.y) : null;
      if (!group) return null;
      const row = group.form === 'strip' ? group.rows[0] : group.share;
      const inside = at.y - this.screenTop(group);
      const data = this.best(group);
      if (!row || !data || !data.columns || inside < row.top || inside >= row.top + row.height) return null;
      const half = Math.max(1, this.cyclesPerPixel / data.perPixel) / 2;
      const place = (this.positionAt(at.x) - data.start) / data.perPixel;
      const sums = space.columnSums(data.columns, place - half, place + half);
      return {group, sums, cycles: 2 * half * data.perPixel};
    },

    // Says what the pixel under the pointer consists of.
    hoverShares({group, sums, cycles}, at) {
      const lines = this.kinds.filter((kind) => kind.number < sums.length && sums[kind.number] > 0)
        .sort((a, b) => sums[b.number] - sums[a.number])
        .map((kind) => kind.label + ' [' + kind.letter + '] ' + (100 * sums[kind.number] / cycles).toFixed(0) + ' %');
      const title = group.name + ', cycle ' + space.count(this.positionAt(at.x));
      const more = group.form === 'strip' ? ['click to show its levels'] : [];
      this.showTooltip(title, '', [...(lines.length ? lines : ['no step']), ...more], at);
    },

    hover(at) {
      this.last = at || this.last;
      const note = this.noteAt(at);
      if (note) { this.hoverNote(note, at); return; }
      const shares = this.sharesAt(at);
      if (shares) { this.hoverShares(shares, at); return; }
      const delta = this.deltaAt(at);
      if (delta) { this.showTooltip(delta, '', ['cycle ' + space.count(this.positionAt(at.x)) + ' of the common axis'], at); return; }
      const longest = this.longestAt(at);
      if (longest) { this.hoverLongest(longest, at); return; }
      const found = at && this.extent ? this.laneAt(at.y) : null;
      const cycle = found ? this.positionAt(at.x) : 0;
      const i = found ? space.barAt(found.lane, cycle - found.data.start, 1.5 * this.cyclesPerPixel) : -1;
      const isHidden = i >= 0 && found.lane.mix[i] < 0 && this.hidden & 1 << found.lane.kind[i];
      if (i < 0 || isHidden) { this.tooltip.style.display = 'none'; return; }
      const {lane, data} = found;
      const kind = this.kinds[lane.kind[i]];
      const count = lane.count[i];
      const cycles = lane.duration[i];
      const title = lane.name[i] >= 0 ? this.sources[found.group.side].path(lane.name[i]) || kind.label
        : space.count(count) + ' slices, too short to show separately';
      const share = 100 * cycles / (this.range.end - this.range.start);
      const middle = data.start + lane.start[i] + cycles / 2;
      const wait = found.group.track === 0 && lane.level >= 0 ? space.waitAt(this.waits, found.group.ipu, middle) : null;
      const part = lane.level < 0 ? this.criticalShare(found.group.ipu, data.start + lane.start[i], cycles) : null;
      const lines = [
        this.contents(lane, i),
        ...(wait ? ['waits for IPU ' + wait.late_ipu_id + (wait.late_step ? ', which is in ' + wait.late_step : '')] : []),
        ...(part === null ? [] : ['blue line: the critical path, ' + space.shareText(part) + ' of this run on this IPU']),
        space.plural(cycles, 'cycle', 'cycles')
          + (this.hertz ? ' · ' + space.seconds(cycles, this.hertz) : '')
          + ' · ' + (share >= 0.1 ? share.toFixed(1) : '< 0.1') + ' % of the visible range',
        'from ' + space.count(data.start + lane.start[i]),
        ...(this.sources.length > 1 ? ['on the common axis; click for its own cycles'] : []),
      ];
      this.showTooltip(title, this.colours.kinds[kind.number], lines, at);
    },

    showTooltip(title, colour, lines, at) {
      this.tooltip.textContent = '';
      const head = space.make('div', 'trace-tooltip-title', this.tooltip);
      if (colour) space.make('span', 'trace-swatch', head).style.background = colour;
      head.append(title);
      for (const line of lines) space.make('div', '', this.tooltip).textContent = line;
      this.tooltip.style.display = 'block';
      const root = this.root.getBoundingClientRect();
      const box = this.canvas.getBoundingClientRect();
      const x = box.left - root.left + at.x + 14;
      const y = box.top - root.top + at.y + 16;
      const {offsetWidth, offsetHeight} = this.tooltip;
      this.tooltip.style.left = Math.max(0, Math.min(x, root.width - offsetWidth - 4)) + 'px';
      const fits = box.top + at.y + 16 + offsetHeight < window.innerHeight - 6;
      this.tooltip.style.top = (fits ? y : y - offsetHeight - 30) + 'px';
    },

    say(text, isError) {
      this.message.textContent = text;
      this.message.className = 'trace-message' + (isError ? ' is-error' : '');
      this.message.setAttribute('role', isError ? 'alert' : 'status');
      this.root.classList.toggle('is-empty', text !== '');
    },
  });
})();
