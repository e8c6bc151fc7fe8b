"""The settings of a recipe's `[text]` and `[training]`. Imports no torch.

The line below each field explains it, and the command line's help is made from these lines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Objective = Literal[
    "auto", "next-token", "pairs", "masked-words", "span-corruption", "classification"
]
Schedule = Literal["constant", "cosine", "linear", "inverse-sqrt", "vaswani", "warmup-stable-decay"]


@dataclass(frozen=True)
class TextRecipe:
    """Which text, and how it becomes tokens."""

    corpus: str | None = None
    """corpus used when no file is given: "stories" (generated) or a catalogue name"""
    n_stories: int = 20_000
    """corpus "stories": how many are generated for training"""
    language: Literal["en", "zh", "both"] = "en"
    """corpus "stories": their language"""
    filler_words: tuple[int, ...] = (0, 60)
    """corpus "stories": fewest and most words of filler before the gap"""
    tokenizer: str = "auto"
    """auto, character, symbols, byte, bpe, unigram, wordpiece or word"""
    vocab_size: int | None = None
    """vocabulary size of bpe, unigram, wordpiece and word; None: by the size of the corpus"""
    documents: str = "auto"
    """how the text falls into documents: auto, none, blank-lines, files or json-lines"""
    validation: str | None = None
    """a file to validate on; None: the last part of the text"""
    validation_fraction: float = 0.1
    """share of the text held out when there is no validation file"""
    encoding: str | None = None
    """encoding of the files; None: UTF-8, or what a byte-order mark says"""
    corpus_seed: int = 0
    """seed of generated text and of the tokenizer's sample; apart from training's own seed"""

    source_language: str | None = None
    """translation: language of the source, as in a corpus of the catalogue or "zh" of the stories"""
    target_language: str | None = None
    """translation: language of the target; also chooses how BLEU cuts words (zh: by character)"""
    vocabulary: Literal["auto", "joint", "separate"] = "auto"
    """translation: one vocabulary for both languages, or one for each; auto: one, but two with
    tokenizer auto where one side alone is written without spaces, or where the source's is named"""
    source_tokenizer: str | None = None
    """translation with separate vocabularies: the source's kind of tokenizer; None: as tokenizer"""
    source_vocab_size: int | None = None
    """translation with separate vocabularies: size of the source's; None: by the size of the corpus"""
    columns: str | None = None
    """pairs in one file: its two columns or keys, source,target; None: 1,2 or source,target. Tasks have
    a third one before these, whose words begin the source. Texts to classify: label,text"""
    lowercase: bool = False
    """translation: put both sides into lower case; scores are then lower-cased too"""
    n_pairs: int = 20_000
    """corpus "stories", translation: how many sentence pairs are generated for training"""
    mix: str | None = None
    """translation: real pairs beside the generated ones, a file or a corpus of the catalogue"""


@dataclass(frozen=True)
class TrainingRecipe:
    """Objective, optimizer, schedule and what happens along the way."""

    objective: Objective = "auto"
    """what is learnt: next-token; pairs (source to target); masked-words (BERT), span-corruption (T5);
    classification (--classify). auto: by the assembly, masked-words for encoder-only"""
    mask_share: float = 0.15
    """masked-words, span-corruption: share of the tokens that are hidden"""
    whole_words: bool = False
    """masked-words: hide all tokens of a word together, not each by itself"""
    span_length: float = 3.0
    """span-corruption: tokens of a hidden span, on average"""
    task_share: float = 0.5
    """span-corruption with --pairs beside the text: share of the batches that are pairs"""
    steps: int | None = None
    """optimizer steps; None: as many as fit into `minutes`"""
    minutes: float | None = None
    """time budget; some steps are measured, the number of steps is fixed once and stored"""
    epochs: int = 5
    """word vectors: passes over the text, instead of steps"""
    batch_size: int = 12
    """windows per forward pass; tokens per step = batch_size x accumulate x context_length"""
    batch_tokens: int = 4096
    """pairs, spans: most padded tokens of a side per forward pass; takes the place of batch_size"""
    accumulate: int = 1
    """forward passes per step; the loss is averaged over all their tokens"""
    window_length: int | None = None
    """tokens of a training window; None: the model's context_length, 256 for one without. A gradient
    reaches back no further (truncated back-propagation)"""
    window_order: Literal["random", "shuffled", "streams"] = "shuffled"
    """random: windows start anywhere (nanoGPT); shuffled: every token once per pass; streams (models
    that carry a state): each row reads on where it stopped, its state carried over"""
    reset_share: float = 0.0
    """streams: share of the windows that begin without a state, as those of the evaluation do"""
    label_smoothing: float = 0.0
    """share of the target's probability spread over the vocabulary (Szegedy et al. 2016); losses
    shown are the true cross-entropy, smoothed_loss in metrics.jsonl is what is minimised"""
    seed: int = 1
    """seed of initialisation, data order, dropout and samples, each with its own generator"""
    lora: int | None = None
    """fine-tuning (--from): rank of low-rank adapters, which alone are learnt while the base stays as
    it is, quantised or not (Hu et al. 2021); 8 is usual. None: all weights are learnt"""
    lora_alpha: float | None = None
    """adapters count alpha / rank times; None: 2 x rank"""
    lora_targets: str | None = None
    """which matrices get adapters: query, key, value, output, up, gate, down, with commas between;
    attention and feed-forward stand for several. None: all of these"""
    recompute: bool = False
    """keep each layer's input alone for the backward pass and compute the rest again: a fraction of the
    memory, a third more time. Fine-tuning does so by itself where the memory would not suffice"""
    embedding_from: str | None = None
    """a run of word vectors, as wide as this model's embedding, to begin the embedding with"""

    optimizer: Literal["adamw", "muon"] = "adamw"
    """adamw (Loshchilov & Hutter 2019) for all, or muon (Jordan 2024) for the hidden matrices"""
    learning_rate: float = 1e-3
    """peak learning rate of AdamW (with muon: of embeddings, head, norms and biases)"""
    min_learning_rate: float = 0.0
    """learning rate at the end of the schedule; the other rates shrink by the same factor"""
    schedule: Schedule = "cosine"
    """constant, cosine, linear, inverse-sqrt, warmup-stable-decay, or vaswani: the paper's, where
    learning_rate is a scale (1 in the paper) on d_model^-0.5 min(step^-0.5, step warmup^-1.5)"""
    warmup_steps: int = 100
    """steps over which the rate rises linearly from almost 0"""
    decay_fraction: float = 0.2
    """warmup-stable-decay: last share of the steps, over which the rate falls linearly"""
    beta1: float = 0.9
    """AdamW: decay of the mean of gradients"""
    beta2: float = 0.99
    """AdamW: decay of the mean of squared gradients"""
    epsilon: float = 1e-8
    """AdamW: added to the root of the mean square"""
    weight_decay: float = 0.1
    """AdamW: decay of matrices (2-D); norms and biases (1-D) are never decayed"""
    embedding_learning_rate: float | None = None
    """peak rate of the embeddings; None: learning_rate"""
    head_learning_rate: float | None = None
    """peak rate of an untied output layer; None: learning_rate"""
    muon_learning_rate: float = 0.02
    """muon: peak rate of the hidden matrices"""
    muon_momentum: float = 0.95
    """muon: momentum (Nesterov)"""
    muon_momentum_warmup: int = 0
    """muon: steps over which the momentum rises from 0.85"""
    muon_weight_decay: float = 0.0
    """muon: decoupled weight decay of the hidden matrices"""
    muon_steps: int = 5
    """muon: Newton-Schulz iterations"""
    muon_iteration: Literal["quintic", "polar"] = "quintic"
    """muon: coefficients; quintic (Jordan 2024, 5 steps) or polar (Amsel et al. 2025, 3 or more)"""
    clip: float | None = 1.0
    """largest norm of the whole gradient; 0: no clipping"""

    average: Literal["none", "ema", "last"] = "none"
    """what is evaluated and saved: the weights, their moving average, or the mean of the last"""
    average_decay: float = 0.999
    """ema: decay per step (less at the start)"""
    average_count: int = 5
    """last: how many snapshots are averaged, one per evaluation interval"""

    evaluate_every: int = 250
    """steps between evaluations on the whole validation split; the best weights are kept"""
    evaluation_tokens: int | None = None
    """evaluate on this many tokens only until the end; None: all"""
    bleu_sentences: int = 200
    """pairs: validation sentences translated greedily at each evaluation for BLEU; 0: none"""
    best_by: Literal["loss", "bleu", "accuracy"] = "loss"
    """which weights are the best, and what patience waits for; bleu: pairs, accuracy: classification"""
    patience: int | None = None
    """stop after this many evaluations that were not the best; None: never"""
    sample_every: int | None = None
    """steps between samples; None: at each evaluation, 0: never"""
    sample_tokens: int = 120
    """tokens of a sample"""
    checkpoint_every: int | None = None
    """steps between checkpoints; None: at each evaluation"""
    keep_checkpoints: int = 2
    """newest checkpoints that are kept"""
    log_every: int = 10
    """steps per line of metrics.jsonl"""
    baselines: bool = True
    """compute the losses of simple models first, to see whether ours is normal"""
    spike: float = 3.0
    """stop when the loss exceeds its recent mean by this many nats three steps in a row; 0: never"""

    device: str = "auto"
    """auto (CUDA where there is one), cpu or cuda"""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """bfloat16 computes under autocast; auto: where the hardware has it, else float32"""
    compile: bool = False
    """torch.compile: pays off on a GPU"""
    threads: str | int = "auto"
    """CPU threads; auto times one step at each number"""
