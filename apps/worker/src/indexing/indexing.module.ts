import { Module } from "@nestjs/common";
import { KeywordIndex } from "./keyword-index.js";
import { KeywordSubscriber } from "./keyword.subscriber.js";
import { VectorIndex } from "./vector-index.js";
import { VectorSubscriber } from "./vector.subscriber.js";

@Module({ providers: [KeywordSubscriber, KeywordIndex, VectorSubscriber, VectorIndex] })
export class IndexingModule {}
