// The program tree. Children are fetched when a node opens, and only visible rows are drawn, so a
// program of a hundred thousand steps opens instantly.
(function () {
  'use strict';
  const clientside = window.dash_clientside = window.dash_clientside || /** @type {DashClientside} */ ({});
  const ROW_PX = 24;
  const PAGE = 500;
  /** Open programs in the address, at most. */
  const MOST_OPEN = 60;

  async function ask(path, parameters) {
    const answer = await fetch('/api/programs/' + path + '?' + new URLSearchParams(parameters));
    const data = await window.tilescope_text.read(answer);
    if (!data.ok) throw new Error(data.message);
    return data;
  }

  /** Signs and words of how a program differs between two reports. */
  const MARKS = {same: ['', 'Same in both reports'], changed: ['≠', 'Changed'],
    added: ['+', 'Only in the candidate'], removed: ['−', 'Only in the baseline']};

  function make(tag, className, text) {
    const element = document.createElement(tag);
    element.className = className;
    element.textContent = text;
    return element;
  }

  // The cycles of a program and of all in it; nothing where no step is in it.
  const cycles = (node) => Number.isInteger(node.cycles) ? node.cycles.toLocaleString('en-US') : '';

  // Kind, name, notes and cycles of a program; `row` is where it stands in the tree, of two reports another one.
  function describe(node, row) {
    const notes = [];
    if (row.depth === 0) {
      notes.push((node.root_kind === 'function' ? 'function ' : 'control program ') + node.root_index);
    }
    if (node.repeat_count > 1) notes.push('× ' + node.repeat_count.toLocaleString('en-US'));
    if (node.n_tiles) notes.push(node.n_tiles.toLocaleString('en-US') + (node.n_tiles === 1 ? ' tile' : ' tiles'));
    if (node.n_children && node === row) notes.push(node.n_children.toLocaleString('en-US') + ' inside');
    const name = make('span', 'tree-name', node.name ? '(' + node.name + ')' : '');
    name.title = node.name || '';
    return [make('span', 'tree-kind phase-' + node.phase, node.kind), name,
      make('span', 'tree-note', notes.join(' · ')), make('span', 'tree-cycles', cycles(node))];
  }

  class Tree {
    constructor(host) {
      this.host = host;
      this.report = null;
      this.rows = [];
      this.selected = null;
      this.focused = 0;
      this.pending = new Map();
      this.matches = null;
      host.innerHTML = '';
      this.space = document.createElement('div');
      this.space.className = 'tree-space';
      host.append(this.space);
      host.addEventListener('scroll', () => this.schedule());
      new ResizeObserver(() => this.schedule()).observe(host);
      host.addEventListener('click', (event) => this.click(event));
      host.addEventListener('keydown', (event) => this.key(event));
    }

    // Addresses and parameters of one report, or of two with their programs aligned.
    where(what) {
      return this.report + (this.candidate ? '/compare/' : '/') + what;
    }

    query(parameters) {
      return this.candidate ? {with: this.candidate, ...parameters} : parameters;
    }

    isOf(report, candidate) {
      return report === this.report && candidate === this.candidate;
    }

    async load(report, candidate) {
      if (this.isOf(report, candidate)) return;
      this.report = report;
      this.candidate = candidate;
      this.associated = null;
      this.rows = [];
      this.opened = '';
      this.byId = new Map();
      this.selected = null;
      this.focused = 0;
      this.pending.clear();
      this.message('Loading …');
      try {
        const data = await ask(this.where('roots'), this.query({}));
        if (!this.isOf(report, candidate)) return;
        this.roots = data.nodes.map((node) => this.adopt(node, null, 0));
        if (!this.roots.length) {
          this.message('This report has no program: the run ended before the program was compiled.');
          return;
        }
        this.sayCycles(data.runs);
        this.listRoots();
        if (this.roots.length) await this.open(this.roots[0]);
        let only = this.roots[0];
        while (only.children && only.n_children === 1 && only.children[0].n_children) {
          only = only.children[0];
          await this.open(only);
        }
        this.flatten();
      } catch (error) {
        this.message(error.message, true);
      }
    }

    adopt(node, parent, depth) {
      const known = Object.assign(node, {id: String(node.id), parent, depth, isOpen: false, children: null});
      this.byId.set(node.id, known);
      return known;
    }

    async open(node) {
      if (!node.n_children) return;
      node.isOpen = true;
      node.children = node.children || new Array(node.n_children);
      await this.fill(node, 0);
    }

    // Fetches the page of children that contains a position, once.
    fill(node, place) {
      const offset = Math.floor(place / PAGE) * PAGE;
      if (node.children[offset]) return Promise.resolve();
      const key = node.id + ':' + offset;
      if (!this.pending.has(key)) {
        const {report, candidate} = this;
        const whose = candidate ? {} : {program: node.id};
        for (const side of candidate ? ['one', 'other'] : []) if (node[side]) whose[side] = node[side].id;
        const request = ask(this.where('children'), this.query({...whose, offset, limit: PAGE}))
          .then((data) => {
            if (!this.isOf(report, candidate)) return;
            // Of two reports, only the answer says how many children there are together.
            const isResized = candidate && node.children.length !== data.n_children;
            if (isResized) node.children.length = data.n_children;
            data.nodes.forEach((child, index) => {
              node.children[offset + index] = this.adopt(child, node, node.depth + 1);
            });
            this.pending.delete(key);
            if (isResized) this.flatten();
            this.schedule();
          });
        this.pending.set(key, request);
      }
      return this.pending.get(key);
    }

    flatten() {
      const rows = [];
      const walk = (node) => {
        rows.push({node});
        if (!node.isOpen) return;
        for (let place = 0; place < node.children.length; place++) {
          const child = node.children[place];
          if (child) walk(child);
          else rows.push({parent: node, place});
        }
      };
      for (const root of this.roots || []) walk(root);
      this.rows = rows;
      this.schedule();
    }

    message(text, isError) {
      this.space.style.height = 'auto';
      this.space.replaceChildren();
      const box = document.createElement('div');
      box.className = isError ? 'error-panel' : 'empty-state';
      box.textContent = text;
      this.space.append(box);
    }

    schedule() {
      if (this.frame) return;
      this.frame = requestAnimationFrame(() => {
        this.frame = null;
        this.draw();
      });
    }

    draw() {
      if (!this.rows.length) return;
      // Rows of a page that has arrived replace their placeholders.
      let arrived = false;
      for (const row of this.rows) {
        if (row.parent && row.parent.children[row.place]) {
          row.node = row.parent.children[row.place];
          row.parent = null;
          arrived = true;
        }
      }
      const first = Math.max(0, Math.floor(this.host.scrollTop / ROW_PX) - 5);
      const last = Math.min(this.rows.length, first + Math.ceil(this.host.clientHeight / ROW_PX) + 10);
      this.space.style.height = this.rows.length * ROW_PX + 'px';
      const drawn = [];
      for (let index = first; index < last; index++) {
        const row = this.rows[index];
        if (!row.node) this.fill(row.parent, row.place).catch((error) => this.message(error.message, true));
        drawn.push(this.rowElement(row, index));
      }
      this.space.replaceChildren(...drawn);
      if (arrived) this.schedule();
    }

    rowElement(row, index) {
      const element = document.createElement('div');
      element.className = 'tree-row';
      element.style.top = index * ROW_PX + 'px';
      element.dataset.index = index;
      if (!row.node) {
        element.textContent = '…';
        element.style.paddingLeft = 12 + 16 * (row.parent.depth + 1) + 'px';
        return element;
      }
      const node = row.node;
      element.setAttribute('role', 'treeitem');
      element.setAttribute('aria-level', node.depth + 1);
      element.setAttribute('aria-selected', String(node.id === this.selected));
      element.id = 'program-' + node.id;
      if (node.n_children) element.setAttribute('aria-expanded', String(node.isOpen));
      element.style.paddingLeft = 8 + 16 * node.depth + 'px';
      if (node.id === this.selected) element.classList.add('is-selected');
      if (index === this.focused) element.classList.add('is-focused');
      if (this.matches && this.matches.has(node.id)) element.classList.add('is-match');
      if (this.associated && this.associated.ids.has(node.id)) element.classList.add('is-associated');
      const arrow = document.createElement('span');
      arrow.className = 'tree-arrow';
      arrow.textContent = node.n_children ? (node.isOpen ? '▾' : '▸') : '';
      element.append(arrow);
      if (!this.candidate) {
        element.append(...describe(node, node));
        return element;
      }
      element.classList.add('is-compared', 'mark-' + node.mark);
      const [sign, word] = MARKS[node.mark];
      const mark = make('span', 'tree-mark', sign);
      mark.title = word;
      mark.setAttribute('aria-label', word);
      element.append(mark);
      for (const side of [node.one, node.other]) {
        const half = make('span', 'tree-half', '');
        half.append(...(side ? describe(side, node) : [make('span', 'tree-name', '–')]));
        element.append(half);
      }
      element.append(make('span', 'tree-change', node.change));
      return element;
    }

    // What the cycles at the right of the rows are.
    sayCycles(runs) {
      const note = document.getElementById('programs-cycles');
      if (!note) return;
      note.textContent = 'Right: cycles ' + runs + (this.candidate ? ', and their change' : '');
      note.title = 'On the critical path; of a program that holds others, the sum of the steps in it.'
        + ' Steps of a function count in the function, not in its calls.';
    }

    // The numbered programs beside the tree; one is shown by a click.
    listRoots() {
      const menu = document.getElementById('program-roots');
      if (!menu) return;
      const parts = [];
      for (const [kind, title] of [['control', 'Control programs'], ['function', 'Functions']]) {
        const roots = this.roots.filter((root) => root.root_kind === kind);
        if (!roots.length) continue;
        parts.push(make('h3', '', title));
        for (const root of roots) {
          const button = make('button', 'root-button', root.root_index + (root.name ? ' ' + root.name : ''));
          /** @type {HTMLButtonElement} */ (button).type = 'button';
          button.title = root.label;
          button.addEventListener('click', async () => {
            this.choose(root);
            await this.reveal(root.id);
          });
          parts.push(button);
        }
      }
      menu.replaceChildren(...parts);
    }

    // Programs of the same debug context in a layer as the selected one.
    async associate(layer) {
      const {report, selected} = this;
      const node = selected !== null && this.byId.get(selected);
      const id = node && node.one ? String(node.one.id) : selected;
      const key = layer + ' ' + id;
      if (this.associatedKey === key) return this.associated;
      this.associatedKey = key;
      this.associated = null;
      if (id !== null && layer !== 'none' && !id.startsWith('c')) {
        const data = await ask(report + '/associated', {program: id, layer});
        if (this.associatedKey !== key) return this.associated;
        this.associated = {name: data.name, ids: new Set(data.programs.map(String))};
      }
      this.schedule();
      return this.associated;
    }

    async toggle(node) {
      if (!node.n_children) return;
      if (node.isOpen) node.isOpen = false;
      else await this.open(node);
      this.flatten();
      this.noteOpen();
    }

    // Writes the innermost open programs into the address: those around them are open, too.
    noteOpen() {
      const open = this.rows.filter(({node}) => node && node.isOpen).map(({node}) => node);
      const around = new Set(open.map((node) => node.parent));
      const innermost = open.filter((node) => !around.has(node)).map((node) => node.id);
      this.opened = innermost.slice(0, MOST_OPEN).join(',') || 'none';
      window.tilescope.changeView({open: this.opened}, false);
    }

    // Opens what the address names and closes the rest.
    async openOnly(text) {
      if (text === this.opened || !text) return;
      this.opened = text;
      for (const node of this.byId.values()) node.isOpen = false;
      for (const id of text.split(',').filter((one) => /^c?\d+$/.test(one)).slice(0, MOST_OPEN)) {
        await this.reveal(id).catch(() => {});
        const node = this.byId.get(id);
        if (node) await this.open(node);
      }
      this.host.scrollTop = 0;
      this.flatten();
    }

    click(event) {
      const element = event.target.closest('.tree-row');
      const row = element && this.rows[Number(element.dataset.index)];
      if (!row || !row.node) return;
      this.focused = Number(element.dataset.index);
      if (event.target.classList.contains('tree-arrow')) this.toggle(row.node);
      else {
        if (event.detail > 1) this.toggle(row.node);
        this.choose(row.node);
      }
    }

    choose(node) {
      this.selected = node.id;
      this.schedule();
      window.tilescope.changeView({node: node.id}, false);
    }

    key(event) {
      const row = this.rows[this.focused];
      const node = row && row.node;
      const page = Math.floor(this.host.clientHeight / ROW_PX) - 1;
      const moves = {ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page,
        Home: -this.rows.length, End: this.rows.length};
      if (event.key in moves) this.focus(this.focused + moves[event.key]);
      else if (event.key === 'ArrowRight' && node && node.n_children) {
        if (node.isOpen) this.focus(this.focused + 1);
        else this.toggle(node);
      } else if (event.key === 'ArrowLeft' && node) {
        if (node.isOpen) this.toggle(node);
        else if (node.parent) this.focus(this.rows.findIndex((other) => other.node === node.parent));
      } else if ((event.key === 'Enter' || event.key === ' ') && node) this.choose(node);
      else return;
      event.preventDefault();
    }

    focus(index) {
      this.focused = Math.max(0, Math.min(this.rows.length - 1, index));
      const top = this.focused * ROW_PX;
      const height = this.host.clientHeight;
      if (top < this.host.scrollTop) this.host.scrollTop = top;
      else if (top + ROW_PX > this.host.scrollTop + height) this.host.scrollTop = top + ROW_PX - height;
      const row = this.rows[this.focused];
      if (row && row.node) this.host.setAttribute('aria-activedescendant', 'program-' + row.node.id);
      this.schedule();
    }

    // Opens the ancestors of a program and scrolls to it.
    async reveal(id) {
      const {report, candidate} = this;
      const data = await ask(this.where('path'), this.query(candidate ? {key: id} : {program: id}));
      if (!this.isOf(report, candidate)) return;
      for (let index = 0; index + 1 < data.path.length; index++) {
        const node = this.byId.get(String(data.path[index].id));
        if (!node) break;
        node.isOpen = true;
        node.children = node.children || new Array(node.n_children);
        await this.fill(node, data.path[index + 1].position);
      }
      this.flatten();
      const place = this.rows.findIndex((row) => row.node && row.node.id === id);
      if (place < 0) return;
      this.focused = place;
      this.host.scrollTop = Math.max(0, place * ROW_PX - this.host.clientHeight / 2);
      this.schedule();
    }
  }

  let tree = null;
  let search = {text: '', matches: [], place: -1, total: 0};

  function treeOf() {
    const host = document.getElementById('program-tree');
    if (!tree || tree.host !== host) tree = new Tree(host);
    return tree;
  }

  function associatedNote(found, layer) {
    if (!found || layer === 'none') return '';
    if (!found.ids.size) return 'No associated steps in this layer';
    return found.ids.size.toLocaleString('en-US') + ' associated programs: ' + found.name;
  }

  function searchNote() {
    if (!search.text) return '';
    if (!search.total) return 'Nothing matches “' + search.text + '”';
    const shown = search.matches.length < search.total
      ? ' (first ' + search.matches.length.toLocaleString('en-US') + ')' : '';
    return (search.place + 1).toLocaleString('en-US') + ' of ' +
      search.total.toLocaleString('en-US') + ' matches' + shown;
  }

  clientside.programs = {
    async show(view) {
      if (!view || !view.report) return clientside.no_update;
      const shown = treeOf();
      const isNew = !shown.isOf(view.report, view.with);
      await shown.load(view.report, view.with);
      await shown.openOnly(view.open);
      const wanted = /^c?\d+$/.test(view.node) ? view.node : null;
      if (wanted !== null && wanted !== shown.selected) {
        shown.selected = wanted;
        await shown.reveal(wanted).catch(() => {});
      }
      shown.schedule();
      // Which steps belong together is said when it is known; the search need not wait for it.
      shown.associate(view.layer).then((found) => {
        const note = document.getElementById('programs-associated');
        if (note) note.textContent = associatedNote(found, view.layer);
      }).catch(() => {});
      if (view.find !== search.text || isNew) {
        search = {text: view.find, matches: [], place: -1, total: 0};
        shown.matches = null;
        if (view.find) {
          try {
            const data = await ask(shown.where('search'), shown.query({text: view.find}));
            search.matches = data.matches.map((match) => String(match.program));
            search.total = data.n_matches;
            shown.matches = new Set(search.matches);
            if (search.matches.length && wanted === null) {
              search.place = 0;
              await shown.reveal(search.matches[0]);
            } else if (search.matches.length) {
              search.place = Math.max(0, search.matches.indexOf(wanted));
              if (!shown.matches.has(wanted)) await shown.reveal(search.matches[0]);
            }
          } catch (error) {
            return error.message;
          }
        }
        shown.schedule();
      }
      return searchNote();
    },

    async step() {
      const trigger = clientside.callback_context.triggered_id;
      if (!search.matches.length) return searchNote();
      const move = trigger === 'programs-next' ? 1 : -1;
      search.place = (search.place + move + search.matches.length) % search.matches.length;
      const id = search.matches[search.place];
      const shown = treeOf();
      await shown.reveal(id);
      const row = shown.rows[shown.focused];
      if (row && row.node) shown.choose(row.node);
      return searchNote();
    },
  };

  document.addEventListener('keydown', (event) => {
    const target = /** @type {Element} */ (event.target);
    if (event.key !== 'Enter' || !target.matches || !target.matches('#programs-find')) return;
    document.getElementById(event.shiftKey ? 'programs-back' : 'programs-next')?.click();
  });
})();
