// Part of the viewer: rows and their labels. A pinned row stays at the top while the others scroll; the
// address holds the pinned rows.
(function () {
  'use strict';
  const space = window.tilescopeTrace = window.tilescopeTrace || /** @type {TraceSpace} */ ({});
  const NAMED_FROM = 13; // pixels of a strip with a name, and with a pin
  const PINNED_FROM = 18;
  const ROOM = 60; // pixels that pinned rows leave to the others
  /** @type {Record<string, string[]>} */
  const ROW_NAMES = {
    names: ['Longest', 'The longest steps that are too narrow for a name; a click on one shows it'],
    share: ['Activity', 'Share of the kinds in the cycles of every pixel'],
    delta: ['Change', 'Up: the candidate takes longer; down: it takes less time'],
  };
  const SVG = 'http://www.w3.org/2000/svg';
  const PIN = 'M9.5 1 15 6.5l-1.6.9-.8-.3-2.3 2.3.2 3.1L9 14 5.9 10.9 1.6 15 1 14.4l4.1-4.3L2 7l1.5-1.5 3.1.2'
    + 'L8.9 3.4 8.6 2.6z';

  /** Keys of rows in a text, without what is none. */
  space.pinsOf = (text) => [...new Set((text || '').split(','))]
    .filter((key) => /^\d{1,5}\.\d{1,5}(\.1)?(\.t\d{1,7})?$/.test(key));

  // The pinned rows first, as long as they leave some room, then the others.
  space.pinnedFirst = (rows, pins, most) => {
    let room = most - space.RULER - ROOM;
    const pinned = [];
    for (const key of pins) {
      const row = rows.find((one) => one.key === key);
      if (!row || row.height + space.GAP > room) continue;
      room -= row.height + space.GAP;
      pinned.push({...row, isPinned: true});
    }
    return [...pinned, ...rows.filter(({key}) => !pinned.some((one) => one.key === key))];
  };

  /** Where to scroll so that `top` to `bottom` lie between two edges: as now if they do, else to the middle. */
  space.scrollTo = (top, bottom, scroll, first, last) => {
    if (top - scroll >= first && bottom - scroll <= last) return scroll;
    return Math.max(0, Math.round((top + bottom) / 2 - (first + last) / 2));
  };

  (space.parts = space.parts || []).push({
    // Where a row begins on the canvas.
    screenTop(row) {
      return row.isPinned ? row.top : row.top - (this.measured ? this.measured.scroll : this.scroller.scrollTop);
    },

    // The first pixel below the pinned rows.
    get pinnedBottom() {
      return this.groups.reduce((low, row) => row.isPinned ? row.top + row.height + space.GAP / 2 : low, space.RULER);
    },

    togglePin(key) {
      const {pins} = this.state;
      this.state.pins = pins.includes(key) ? pins.filter((one) => one !== key) : [...pins, key];
      this.arrange();
      this.draw();
      this.request();
      this.changed();
    },

    // Pins the row of the selected slice, or lets it go.
    pinSelected() {
      const found = this.selected && this.rowOf(this.selected);
      if (found) this.togglePin(found.row.key);
    },

    // The group of a slice and its row there, if it has one.
    rowOf({ipu_id: ipu, track, level, side}) {
      for (const row of this.groups) {
        if (row.ipu !== ipu || row.track !== track || row.side !== (side || 0) || row.form === 'strip') continue;
        const lane = row.rows.find((one) => one.level === level);
        if (lane) return {row, lane};
      }
      return null;
    },

    // Scrolls until a slice's row is in the middle third, unless all of it is to be seen; of a group that is
    // not loaded, once it is.
    reveal(slice) {
      this.unseen = slice;
      this.scrollToUnseen();
    },

    scrollToUnseen() {
      const found = this.unseen && this.rowOf(this.unseen);
      if (!found || !this.best(found.row)) return;
      this.unseen = null;
      if (found.row.isPinned) return;
      const {scroller} = this;
      const top = found.row.top + found.lane.top;
      scroller.scrollTop = space.scrollTo(
        top, top + found.lane.height, scroller.scrollTop, this.pinnedBottom, scroller.clientHeight,
      );
    },

    paintGutter() {
      const wanted = this.groups.map((row) => [row.key, row.form, row.top, row.height, row.isPinned].join()).join(';')
        + this.height + this.state.pins.join();
      if (this.gutterKey === wanted) return;
      this.gutterKey = wanted;
      this.gutter = this.gutter || space.make('div', 'trace-gutter', this.scroller);
      this.pinnedGutter = this.pinnedGutter || space.make('div', 'trace-gutter trace-gutter-pinned', this.sticky);
      const focused = /** @type {HTMLElement} */ (document.activeElement);
      const place = this.scroller.contains(focused) ? focused.dataset.row : undefined;
      this.gutter.textContent = this.pinnedGutter.textContent = '';
      const bottom = this.pinnedBottom;
      this.pinnedGutter.style.height = (bottom > space.RULER ? bottom - space.RULER : 0) + 'px';
      let strips = 0;
      for (const row of this.groups) {
        const gutter = row.isPinned ? this.pinnedGutter : this.gutter;
        const top = row.isPinned ? row.top - space.RULER : row.top;
        if (row.form === 'strip' && row.tile === undefined) {
          strips += 1;
          // Low strips have a label every eighth.
          if (row.height < NAMED_FROM && (strips - 1) % 8) continue;
        }
        if (row.tile === undefined) this.paintGroupName(row, gutter, top);
        else {
          const name = space.make('span', 'trace-tile', gutter);
          name.style.top = top + 'px';
          name.textContent = row.name;
        }
        for (const {type, top: inside, height} of row.rows) {
          const [text, title] = ROW_NAMES[type] || [];
          if (!text) continue;
          const name = space.make('span', 'trace-row-name', gutter);
          // Of two reports, the side stands above the first of them.
          const lift = type === 'names' && this.sources.length > 1 ? 3 : 9;
          name.style.top = top + inside + height / 2 - lift + 'px';
          name.textContent = text;
          name.title = title;
        }
        if (row.height >= PINNED_FROM) this.paintPin(row, gutter, top);
      }
      if (place === undefined) return;
      const buttons = [...this.scroller.querySelectorAll('button')];
      const button = buttons.find((one) => one.dataset.row === place);
      if (button) button.focus({preventScroll: true});
    },

    paintPin(row, gutter, top) {
      const isPinned = this.state.pins.includes(row.key);
      const whose = this.sources.length > 1 ? ' of the ' + space.SIDES[row.side] : '';
      const button = space.make('button', 'trace-pin', gutter);
      button.type = 'button';
      button.style.top = top + 'px';
      button.dataset.row = 'pin ' + row.key;
      button.setAttribute('aria-pressed', String(isPinned));
      button.setAttribute('aria-label', 'Pin ' + row.name + whose);
      button.title = !isPinned ? 'Keep ' + row.name + ' at the top'
        : row.isPinned ? 'Let ' + row.name + ' scroll again' : 'Pinned, but there is no room: close other rows';
      const picture = document.createElementNS(SVG, 'svg');
      picture.setAttribute('viewBox', '0 0 16 16');
      picture.setAttribute('aria-hidden', 'true');
      const path = document.createElementNS(SVG, 'path');
      path.setAttribute('d', PIN);
      picture.append(path);
      button.append(picture);
      button.addEventListener('click', () => this.togglePin(row.key));
    },

    paintGroupName(row, gutter, top) {
      const button = space.make('button', 'trace-group', gutter);
      button.type = 'button';
      button.style.top = top + 'px';
      button.dataset.row = 'group ' + row.key;
      button.textContent = (row.isClosed ? '▸ ' : '▾ ') + row.name;
      if (this.sources.length > 1) {
        space.make('span', 'trace-side trace-side-' + row.side, button).textContent = space.SIDES[row.side];
      }
      button.setAttribute('aria-expanded', String(!row.isClosed));
      button.title = (row.isClosed ? 'Show all levels of ' : this.hasStrips ? 'Show one strip of ' : 'Show one lane of ')
        + row.name;
      const tall = this.sources.length > 1 && row.form !== 'strip' ? 33 : 19;
      button.style.height = Math.min(tall, row.height < NAMED_FROM ? tall : row.height) + 'px';
      button.addEventListener('click', () => this.toggleGroup(row));
    },

    // Folds the rows of an IPU, or shows all of them.
    toggleGroup({ipu}) {
      const folded = this.hasStrips ? this.state.opened : this.state.closed;
      if (!folded.delete(ipu)) folded.add(ipu);
      for (const store of [this.data, this.whole]) {
        for (const key of [...store.keys()]) if (key.startsWith(ipu + '.')) store.delete(key);
      }
      this.arrange();
      this.draw();
      this.request();
      this.changed();
    },
  });
})();
