// Part of the viewer: notes on the trace, and marks that are kept to be compared.
(function () {
  'use strict';
  const space = window.tilescopeTrace = window.tilescopeTrace || /** @type {TraceSpace} */ ({});
  const LONGEST_SHARED = 1500; // characters of notes in the address
  const MOST_MARKS = 6;
  const FLAG = 16; // pixels of a note in the ruler

  /** Ranges of a text such as `100:200,300:400`, at most six. */
  space.marksOf = (text) => (text || '').split(',').flatMap((part) => {
    const found = /^(-?\d{1,16}):(-?\d{1,16})$/.exec(part);
    return found && Number(found[1]) < Number(found[2]) ? [{start: Number(found[1]), end: Number(found[2])}] : [];
  }).slice(0, MOST_MARKS);

  space.marksText = (marks) => marks.map(({start, end}) => start + ':' + end).join(',');

  /** The marks with one more, or without it if it is among them. */
  space.toggledMark = (marks, mark) => {
    const others = marks.filter((one) => one.start !== mark.start || one.end !== mark.end);
    return others.length < marks.length ? others : [...others, mark].slice(-MOST_MARKS);
  };

  /** Where the flags of notes stand in the ruler: those that would lie over another have no text. */
  space.noteFlags = (notes, {start, end}, width, measure) => {
    let last = -Infinity;
    return notes.flatMap((note) => {
      if (note.start_cycle === null || note.end_cycle <= start || note.start_cycle >= end) return [];
      const x = (cycle) => Math.max(0, Math.min(width, (cycle - start) / (end - start) * width));
      const [from, to] = [x(note.start_cycle), x(note.end_cycle)];
      const room = Math.max(FLAG, Math.min(measure(note.text) + 8, Math.max(to - from, 180), width - from));
      const isFree = from >= last + 2;
      if (isFree) last = from + room;
      return [{note, from, to, room: isFree ? room : 0}];
    });
  };

  (space.parts = space.parts || []).push({
    async loadNotes() {
      const {source, sources} = this;
      this.notes = [];
      if (!source || sources.length > 1) { this.draw(); return; }
      await this.takeNotes(source.notes('', {shared: this.state.notes}));
    },

    // Shows what the server says of the notes, and keeps them in the address while they are short.
    async takeNotes(asked) {
      const {source} = this;
      try {
        const {notes, shared} = await asked;
        if (source !== this.source) return;
        this.notes = notes;
        const kept = shared.length <= LONGEST_SHARED ? shared : this.state.notes;
        const isNew = kept !== this.state.notes;
        this.state.notes = kept;
        if (isNew) this.changed();
        const away = notes.filter(({missing}) => missing).length;
        if (away) {
          this.found = space.plural(away, 'note has', 'notes have') + ' no place in this report: '
            + notes.find(({missing}) => missing).missing;
        }
      } catch (error) {
        if (source === this.source) this.found = error.message;
      }
      this.writeNote();
      this.draw();
    },

    // The marked range, else the selected slice.
    get chosenRange() {
      const {selected, state: {mark}} = this;
      if (mark) return {start: mark.start, end: mark.end, ipu: selected ? selected.ipu_id : this.groups[0].ipu};
      return selected ? {start: selected.start_cycle, end: selected.end_cycle, ipu: selected.ipu_id} : null;
    },

    // Asks for the text of a note on the chosen range.
    askNote() {
      const chosen = this.chosenRange;
      const why = this.sources.length !== 1 ? 'Notes are written on one report: close the candidate first'
        : chosen ? '' : 'Select a slice, or mark a range with Shift and a drag, to write a note on it';
      if (why) {
        this.found = why;
        this.writeNote();
        return;
      }
      if (this.dialog) this.dialog.remove();
      const dialog = space.make('dialog', 'trace-dialog', document.body);
      this.dialog = dialog;
      const form = space.make('form', '', dialog);
      form.method = 'dialog';
      const label = space.make('label', '', form);
      label.append('Note on ' + space.plural(chosen.end - chosen.start, 'cycle', 'cycles') + ' from ' + space.count(chosen.start));
      const box = space.make('input', '', label);
      box.maxLength = 300;
      box.required = true;
      const buttons = space.make('div', 'trace-tools', form);
      const save = space.make('button', 'trace-tool', buttons);
      save.textContent = 'Save';
      const close = space.make('button', 'trace-tool', buttons);
      close.type = 'button';
      close.textContent = 'Cancel';
      close.addEventListener('click', () => dialog.close());
      form.addEventListener('submit', () => {
        const {start, end, ipu} = chosen;
        this.takeNotes(this.source.notes('', {start, end, ipu, text: box.value, shared: this.state.notes}, 'POST'));
      });
      dialog.addEventListener('close', () => { dialog.remove(); this.scroller.focus({preventScroll: true}); });
      dialog.showModal();
      box.focus();
    },

    removeNote(note) {
      const others = {shared: ''};
      this.takeNotes(this.source.notes('/' + note.note_id, others, 'DELETE'));
    },

    // Keeps the chosen range, to be compared with others, or lets it go.
    keepMark() {
      const chosen = this.chosenRange;
      if (!chosen) return;
      const mark = {start: Math.round(chosen.start), end: Math.round(chosen.end)};
      this.state.marks = space.toggledMark(this.state.marks, mark);
      if (!this.state.mark) this.state.mark = mark;
      this.draw();
      this.changed('summary');
    },

    paintMarks(context, width, height) {
      const {colours, state: {marks}} = this;
      context.textBaseline = 'middle';
      marks.forEach((mark, i) => {
        const [from, to] = [this.pixelOf(mark.start), this.pixelOf(mark.end)].map((x) => Math.max(-2, Math.min(width + 2, x)));
        if (to <= 0 || from >= width) return;
        context.fillStyle = colours.shade;
        context.fillRect(from, space.RULER, Math.max(1, to - from), height);
        context.fillStyle = colours.accent;
        context.fillRect(from, space.RULER, 1, height);
        context.fillRect(to - 1, space.RULER, 1, height);
        context.fillText(String(i + 1), Math.max(2, from + 3), height - 8);
      });
    },

    paintNotes(context, width, height) {
      const {colours, notes} = this;
      if (!notes.length) return;
      const measure = (text) => space.textWidth(context, text);
      context.textBaseline = 'middle';
      this.flags = space.noteFlags(notes, this.range, width, measure);
      for (const {note, from, to, room} of this.flags) {
        context.fillStyle = colours.match;
        context.fillRect(from, space.RULER - 2, Math.max(2, to - from), 2);
        context.fillRect(Math.round(from), room ? 2 : space.RULER - 6, 1, height);
        if (!room) continue;
        context.fillRect(from, 2, room, FLAG);
        context.fillStyle = colours.surface;
        const text = space.labelText(note.text, '', space.ALONE, room - 6, measure);
        context.fillText(text, from + 4, 2 + FLAG / 2 + 0.5);
      }
    },

    // The note whose flag is under a place of the ruler.
    noteAt(at) {
      if (!at || at.y >= space.RULER || !this.notes.length) return null;
      const flag = (this.flags || []).find(({from, to, room}) => at.x >= from && at.x <= from + Math.max(room, to - from, 4));
      return flag ? flag.note : null;
    },

    hoverNote(note, at) {
      this.showTooltip(note.text, '', [
        'IPU ' + note.ipu_id + ', ' + space.plural(note.end_cycle - note.start_cycle, 'cycle', 'cycles') + ' from '
          + space.count(note.start_cycle),
        note.is_shared ? 'from the address; click marks its range' : 'click marks its range, Alt and click removes it',
      ], at);
    },

    clickNote(note, isRemoval) {
      if (isRemoval && !note.is_shared) { this.removeNote(note); return; }
      this.state.mark = {start: note.start_cycle, end: note.end_cycle};
      this.draw();
      this.changed('summary');
    },
  });
})();
